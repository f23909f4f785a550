// Models beyond dense Llama-like ones: parameters against published totals, caches, FLOPs, formats, kernels of a rank.
#include <catch2/catch.hpp>
#include <cmath>

#include "models/transformer/lowering.hpp"
#include "tests/models/support.hpp"

namespace orrery::models::test_experts {
namespace {

Transformer served(const std::string& name, const NumberFormats& formats = {.dtype = hw::DType::bf16, .cache = {}},
                   const Split& split = {}, const RouterParams& router = {}) {
  return build_transformer(test::model(name), formats, split, router);
}

const Op* find(const std::vector<Op>& ops, const std::string& name) {
  for (const Op& op : ops)
    if (op.name == name) return &op;
  return nullptr;
}

TEST_CASE("parameters are the published totals", "[golden]") {
  struct Published {
    const char* name;
    double total, active;  ///< billions, as the model cards state them
  };
  // Active parameters count embedding and head too, which some cards leave out (gpt-oss, MiniMax-M2.5: 10).
  // DeepSeek-V3 technical report: 671B, 37B activated; Qwen3 report: 235B/22B, 30.5B/3.3B; gpt-oss model card: 116.8B/
  // 5.1B, 20.9B/3.6B; DeepSeek-V2-Lite 15.7B/2.4B; Qwen2-57B-A14B 57.41B/14B; Mixtral: 46.7B/12.9B and 141B/39B;
  // Falcon-180B 180B (179.5); OPT 13B 12.9, 66B 65.7, 175B 174.6.
  const Published all[] = {
      {"deepseek-v3", 671.0, 37.6},      {"deepseek-r1", 671.0, 37.6},    {"qwen3-235b-a22b", 235.1, 22.2},
      {"qwen3-30b-a3b", 30.5, 3.35},     {"gpt-oss-120b", 116.8, 5.7},    {"gpt-oss-20b", 20.9, 4.2},
      {"mixtral-8x7b", 46.7, 12.9},      {"mixtral-8x22b", 140.6, 39.1},  {"falcon-180b", 179.5, 179.5},
      {"opt-13b", 12.85, 12.85},         {"opt-66b", 65.7, 65.7},         {"opt-175b", 174.6, 174.6},
      {"qwen3-32b", 32.8, 32.8},         {"yi-34b", 34.4, 34.4},          {"codellama-34b", 33.7, 33.7},
      {"mistral-large", 122.6, 122.6},   {"llama3-15b", 15.0, 15.0},      {"llama-30b", 32.5, 32.5},
      {"qwen-32b", 32.5, 32.5},          {"kimi-k2", 1026.0, 32.9},       {"minimax-m2.5", 228.7, 11.0},
      {"deepseek-v2-lite", 15.71, 2.66}, {"qwen2-57b-a14b", 57.41, 14.25}};
  for (const Published& p : all) {
    CAPTURE(p.name);
    const ModelConfig c = test::model(p.name);
    CHECK(static_cast<double>(parameters(c)) * 1e-9 == Approx(p.total).epsilon(0.004));
    CHECK(static_cast<double>(active_parameters(c)) * 1e-9 == Approx(p.active).epsilon(0.01));
  }
  CHECK(parameters(test::model("mixtral-8x7b")) == 46'702'792'704);
  CHECK(parameters(test::model("falcon-180b")) == 179'522'565'120);
  CHECK(parameters(test::model("opt-13b")) == 12'853'473'280);
}

TEST_CASE("the cache of a latent is one vector a layer", "[unit]") {
  CHECK(kv_bytes_per_token(served("deepseek-v3")) == 70'272);  // 61 * (512 + 64) * 2
  CHECK(kv_bytes_per_token(served("deepseek-v3", {.dtype = hw::DType::bf16, .cache = hw::DType::fp8})) == 35'136);
  // On every rank of tensor parallelism the whole of it.
  CHECK(kv_bytes_per_token(served("deepseek-v3", {.dtype = hw::DType::bf16, .cache = {}}, {.tp = 8})) == 70'272);
  CHECK(kv_bytes_per_token(served("gpt-oss-120b")) == 73'728);  // 36 * 2 * 8 * 64 * 2
  CHECK(kv_bytes_per_token(served("opt-13b")) == 819'200);      // 40 * 2 * 5120 * 2: the 800 KiB of vLLM's paper
  CHECK(kv_bytes_per_token(served("falcon-180b")) == 163'840);  // 80 * 2 * 8 * 64 * 2
}

TEST_CASE("layers are of kinds", "[unit]") {
  const Transformer deepseek = served("deepseek-v3");
  REQUIRE(deepseek.kinds.size() == 2);
  CHECK(deepseek.kinds[0].count == 3);
  CHECK_FALSE(deepseek.kinds[0].experts);
  CHECK(deepseek.kinds[1].count == 58);
  CHECK(deepseek.kind_of[2] == 0);
  CHECK(deepseek.kind_of[3] == 1);
  CHECK(find(deepseek.kinds[1].ops, "shared_ffn_up") != nullptr);
  const Transformer oss = served("gpt-oss-120b");
  REQUIRE(oss.kinds.size() == 2);
  CHECK(oss.kinds[0].window == 128);
  CHECK(oss.kinds[0].count == 18);
  CHECK(oss.kinds[1].window == 0);
  CHECK(served("qwen3-235b-a22b").kinds.size() == 1);
}

TEST_CASE("weights take the bytes of their formats", "[unit]") {
  using hw::WeightFormat;
  // A fp8 DeepSeek-V3 holds a byte a parameter, except what stays bf16: embedding and head 2 * 129280 * 7168, routers
  // 58 * (256 * 7168 + 256), norms below 0.01 %.
  const Transformer fp8 = served("deepseek-v3", {.dtype = hw::DType::bf16,
                                                 .attention = WeightFormat::fp8,
                                                 .ffn = WeightFormat::fp8,
                                                 .experts = WeightFormat::fp8,
                                                 .cache = {}});
  const double bf16_part = 2.0 * 129280 * 7168 + 58.0 * 256 * 7169;
  CHECK(static_cast<double>(weight_bytes(fp8)) ==
        Approx(static_cast<double>(rank_parameters(fp8)) + bf16_part).epsilon(1e-4));
  // gpt-oss-120b: 36 * 128 * (5760 + 2880) * 2880 expert weights of 4.25 bits are 60.9 GB: it fits one 80 GB device.
  const Transformer oss =
      served("gpt-oss-120b", {.dtype = hw::DType::bf16, .experts = WeightFormat::mxfp4, .cache = {}});
  CHECK(static_cast<double>(weight_bytes(oss)) == Approx(65.3e9).epsilon(0.01));
  CHECK(hw::weight_bytes(WeightFormat::nvfp4, hw::DType::bf16, 16) == 9);   // 16 * 4 bits and a byte
  CHECK(hw::weight_bytes(WeightFormat::mxfp4, hw::DType::bf16, 32) == 17);  // 32 * 4 bits and a byte
  CHECK(hw::weight_bytes(WeightFormat::int4, hw::DType::bf16, 128) == 66);  // 128 * 4 bits and two bytes
  CHECK(hw::weight_bytes(WeightFormat::int2, hw::DType::bf16, 128) == 34);  // 128 * 2 bits and two bytes
  // A bit more a weight is all that a level of nested weights adds: 128 bits.
  CHECK(hw::weight_bytes(WeightFormat::int3, hw::DType::bf16, 128) == 34 + 16);
  CHECK(hw::weight_bytes(WeightFormat::as_dtype, hw::DType::bf16, 3) == 6);
  CHECK(hw::weight_bytes(WeightFormat::nvfp4, hw::DType::bf16, 1) == 1);  // rounded up
}

TEST_CASE("FLOPs of a token are twice the parameters that it passes", "[theory]") {
  for (const char* name : {"deepseek-v3", "gpt-oss-120b", "qwen3-30b-a3b", "mixtral-8x7b", "opt-13b", "falcon-180b"}) {
    CAPTURE(name);
    const Transformer t = served(name);
    // 64 decodes over one cached token each: attention is next to nothing.
    BatchDims batch{.tokens = 64, .logit_rows = 64};
    for (int i = 0; i < 64; ++i) batch.decode.add(1);
    const auto& c = t.config;
    const double looked_up = static_cast<double>(embedding_parameters(t)) -
                             (c.tie_word_embeddings ? static_cast<double>(c.vocab_size * c.hidden_size) : 0.0);
    const double passed = static_cast<double>(active_parameters(c)) - looked_up;
    CHECK(static_cast<double>(matrix_flops(t, batch)) == Approx(2 * 64 * passed).epsilon(0.01));
  }
}

TEST_CASE("a step reads the experts that its tokens activate", "[unit]") {
  const Transformer t = served("qwen3-30b-a3b");
  Launches out;
  lower_dense(t, 0, {.decode = 32}, out);
  const hw::GroupedGemm* up = nullptr;
  for (const hw::Kernel& kernel : out.kernels)
    if (kernel.op == hw::OpClass::expert_up) up = &std::get<hw::GroupedGemm>(kernel.shape);
  REQUIRE(up != nullptr);
  CHECK(up->n == 2 * 768);
  CHECK(up->k == 2048);
  CHECK(up->rows == 32 * 8);
  CHECK(static_cast<double>(up->groups) == Approx(0.55 * 128).margin(3));
  const std::int64_t decoded = up->groups;
  out.clear();
  lower_dense(t, 0, {.decode = 0, .prompt = 32, .prompts = 1}, out);
  for (const hw::Kernel& kernel : out.kernels)
    if (kernel.op == hw::OpClass::expert_up) CHECK(std::get<hw::GroupedGemm>(kernel.shape).groups < decoded);
}

TEST_CASE("latents are projected for prompts and folded for decodes", "[unit]") {
  const Transformer t = served("deepseek-v3", {.dtype = hw::DType::bf16, .cache = hw::DType::fp8}, {.tp = 8});
  PrefillSums prompts;
  prompts.add(100, 50);
  DecodeSums decode;
  decode.add(1000);
  decode.add(3000);
  Launches out;
  lower_attention(t, 1, prompts, decode, out);
  REQUIRE(out.kernels.size() == 5);
  const auto& project = std::get<hw::Gemm>(out.kernels[0].shape);
  CHECK(project.m == 150);               // cached and new tokens
  CHECK(project.n == 16 * (128 + 128));  // 128 heads over 8 ranks
  CHECK(project.k == 512);
  const auto& prefill = std::get<hw::AttentionPrefill>(out.kernels[1].shape);
  CHECK(prefill.heads == 16);
  CHECK(prefill.kv_heads == 16);
  CHECK(prefill.head_dim == 192);
  CHECK(prefill.values() == 128);
  const auto& fold = std::get<hw::Gemm>(out.kernels[2].shape);
  CHECK((fold.m == 2 && fold.n == 512 && fold.k == 128 && fold.batch == 16));
  const auto& attend = std::get<hw::AttentionDecode>(out.kernels[3].shape);
  CHECK(attend.latent);
  CHECK(attend.context_tokens == 4000);
  CHECK(attend.kv_heads == 1);
  CHECK(attend.head_dim == 576);
  CHECK(attend.cache_element == 1);
  // 4000 cached vectors of 576 bytes; 2 x 16 queries of 576 elements and as many outputs of 512, two bytes each.
  CHECK(hw::work_of(out.kernels[3]).read_bytes == 4000.0 * 576 + 2 * 16 * 576 * 2);
  CHECK(hw::work_of(out.kernels[3]).write_bytes == 2.0 * 16 * 512 * 2);
  CHECK(std::get<hw::Gemm>(out.kernels[4].shape).n == 128);
}

TEST_CASE("windows bound what attention reads", "[unit]") {
  const Transformer t = served("gpt-oss-20b");
  DecodeSums decode;
  decode.add(1000);
  decode.add(2000);
  PrefillSums prompts;
  prompts.add(512, 0);
  Launches windowed, full;
  lower_attention(t, 0, prompts, decode, windowed);
  lower_attention(t, 1, prompts, decode, full);
  CHECK(std::get<hw::AttentionDecode>(windowed.kernels[1].shape).context_tokens == 256);  // two windows
  CHECK(std::get<hw::AttentionDecode>(full.kernels[1].shape).context_tokens == 3000);
  CHECK(std::get<hw::AttentionPrefill>(windowed.kernels[0].shape).pairs == 512 * 128);
  CHECK(std::get<hw::AttentionPrefill>(windowed.kernels[0].shape).window == 128);
  CHECK(std::get<hw::AttentionPrefill>(full.kernels[0].shape).pairs == 512 * 513 / 2);
}

TEST_CASE("ranks share experts, and tokens travel", "[unit]") {
  const NumberFormats bf16{.dtype = hw::DType::bf16, .cache = {}};
  // 8 ranks of attention data parallelism, experts over all of them: two all-to-alls a layer, no all-reduce.
  const Transformer dp = served("deepseek-v3", bf16, {.tp = 1, .attention_dp = 8, .expert_parallel = 8});
  CHECK(dp.experts == 32);
  Launches out;
  lower_dense(dp, 1, {.decode = 16}, out);
  REQUIRE(out.communications.size() == 2);
  CHECK(out.communications[0].kind == Collective::all_to_all);
  CHECK(out.communications[0].bytes == 16 * 8 * 7168 * 2);  // a row a choice
  CHECK(out.communications[0].ranks == 8);
  // Experts see the tokens of all groups.
  std::int64_t rows = 0;
  for (const hw::Kernel& kernel : out.kernels)
    if (kernel.op == hw::OpClass::expert_up) rows = std::get<hw::GroupedGemm>(kernel.shape).rows;
  CHECK(rows >= 16 * 8);  // an eighth of 128 tokens' choices, at least
  // Tensor parallelism for attention, experts divided: every rank has every token, one all-reduce adds up.
  const Transformer tp = served("deepseek-v3", bf16, {.tp = 8, .attention_dp = 1, .expert_parallel = 4});
  CHECK(tp.experts == 64);
  CHECK(tp.expert_intermediate_size == 1024);
  out.clear();
  lower_dense(tp, 1, {.decode = 16}, out);
  REQUIRE(out.communications.size() == 2);
  for (const Communication& c : out.communications) CHECK(c.kind == Collective::all_reduce);
  // Parameters of all ranks: nothing is lost, what is replicated is counted again.
  CHECK(8 * layer_parameters(tp, 1) > layer_parameters(served("deepseek-v3"), 1));
  CHECK(find(tp.kinds[1].ops, "expert_up")->parameters * 8 ==
        find(served("deepseek-v3").kinds[1].ops, "expert_up")->parameters);

  const sim::Origin where{"run.json", "/replica"};
  CHECK_THROWS_WITH(
      build_transformer(test::model("deepseek-v3"), bf16, {.tp = 8, .expert_parallel = 3}, {}, Sampler::greedy, where),
      "run.json:/replica: expected groups of experts that divide the 8 ranks and the 256 experts, got 3");
  CHECK_THROWS_WITH(
      build_transformer(test::model("llama-3-8b"), bf16, {.tp = 1, .attention_dp = 2}, {}, Sampler::greedy, where),
      "run.json:/replica: expected a model with experts for attention or expert parallelism: a dense one has replicas "
      "instead");
}

TEST_CASE("a layer that predicts a further token is a projection and a layer", "[unit]") {
  const Transformer t = served("deepseek-v3");
  CHECK(t.config.mtp_layers == 1);
  // A layer of 11.5 B, 2 * 7168 * 7168 of projection, three norms: with embedding and head, which are the model's own,
  // the 14 B that the model card counts.
  CHECK(mtp_parameters(t) == layer_parameters(t, 1) + 2 * 7168 * 7168 + 3 * 7168);
  BatchDims batch{.tokens = 8};
  for (int i = 0; i < 8; ++i) batch.decode.add(100);
  Launches layer, further;
  lower_layer(t, 1, batch, layer);
  lower_mtp(t, batch, further);
  CHECK(further.kernels.size() == layer.kernels.size() + 2);
  further.clear();
  lower_mtp(served("qwen3-30b-a3b"), batch, further);
  CHECK(further.kernels.empty());
}

TEST_CASE("quantised configs say their formats", "[unit]") {
  CHECK(test::model("deepseek-v3").weights == hw::WeightFormat::fp8);
  CHECK(test::model("gpt-oss-120b").expert_weights == hw::WeightFormat::mxfp4);
  CHECK(test::model("gpt-oss-120b").weights == hw::WeightFormat::as_dtype);
}

}  // namespace
}  // namespace orrery::models::test_experts
