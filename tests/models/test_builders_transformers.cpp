// Transformer builders: parameters and FLOPs against published counts, kernels against the eager lists, and faults.
#include <catch2/catch.hpp>

#include "builder_support.hpp"
#include "models/eager_model.hpp"
#include "models/transformer/transformer.hpp"
#include "sim/base/math.hpp"

namespace test_builders_transformers {

using namespace orrery;
using namespace orrery::models;
using models::test::built;
using models::test::count;
using models::test::matrix_flops;

namespace {

std::int64_t params(const OpGraph& graph) {
  return models::test::parameters(graph);
}

double product_flops(const std::vector<hw::LaunchedKernel>& kernels) {
  double flops = 0;
  for (const hw::LaunchedKernel& kernel : kernels)
    if (hw::uses_matrix_units(kernel.kernel)) flops += hw::work_of(kernel.kernel).flops;
  return flops;
}
double product_flops(const GraphLaunches& launches) {
  double flops = 0;
  for (const GraphKernel& launch : launches.kernels)
    if (hw::uses_matrix_units(launch.kernel)) flops += hw::work_of(launch.kernel).flops;
  return flops;
}

/// Bytes that passes move, in both lists.
double stream_bytes(const hw::Kernel& kernel) {
  const hw::Work work = hw::work_of(kernel);
  return hw::uses_matrix_units(kernel) ? 0 : work.read_bytes + work.write_bytes;
}

}  // namespace

TEST_CASE("bert: parameters as published", "[golden]") {
  // Counts of the Hugging Face checkpoints: bert-base-uncased 109,482,240 and bert-large-uncased 335,141,888 with
  // pooler; bert-base with the masked-language head 109,514,298 (RAF, Analyze-Model.md); roberta-base 124,645,632;
  // distilbert-base-uncased 66,362,880; albert-base-v2 11,683,584.
  CHECK(params(built("bert")) == 109'482'240);
  CHECK(params(built("bert", R"({"layers": 24, "hidden": 1024, "heads": 16, "intermediate": 4096})")) == 335'141'888);
  CHECK(params(built("bert", R"({"head": "mlm"})")) == 109'514'298);
  CHECK(params(built("bert", R"({"vocab": 50265, "positions": 514, "types": 1})")) == 124'645'632);
  CHECK(params(built("bert", R"({"layers": 6, "types": 0, "head": "none"})")) == 66'362'880);
  CHECK(params(built("bert", R"({"vocab": 30000, "embedding": 128, "shared_layers": true})")) == 11'683'584);
}

TEST_CASE("bert: RAF's FLOPs of a forward pass", "[golden]") {
  // raf_docs_measurements.csv: BERT-base with the masked-language head, batch 32, 128 tokens, fp32: 914.164 GFLOP.
  const OpGraph graph = built("bert", R"({"head": "mlm", "dtype": "fp32", "attention": "eager"})");
  const Bindings sizes{{"batch", 32}, {"tokens", 128}};
  // Products: 4,096 tokens x 2 x (12 x (4 x 768^2 + 2 x 768 x 3072) + 768^2 + 768 x 30522), and of attention
  // 12 layers x 32 x 12 heads x 2 x (2 x 128^2 x 64).
  const std::int64_t dense = 2LL * 4096 * (12 * (4 * 768 * 768 + 2 * 768 * 3072) + 768 * 768 + 768 * 30522);
  CHECK(matrix_flops(graph, sizes) == dense + 12LL * 32 * 12 * 2 * (2 * 128 * 128 * 64));
  const double all = static_cast<double>(total_work(graph, sizes).flops().constant().value());
  CHECK(all / 914.164e9 == Approx(1).margin(0.003));  // passes by our convention of counting
}

TEST_CASE("gpt2: parameters as published", "[golden]") {
  // openai-community/gpt2 124,439,808; gpt2-medium 354,823,168.
  CHECK(params(built("gpt2")) == 124'439'808);
  CHECK(params(built("gpt2", R"({"layers": 24, "hidden": 1024, "heads": 16, "intermediate": 4096})")) == 354'823'168);
}

namespace {

std::int64_t expert_layers_of(const ModelConfig& config) {
  std::int64_t count = 0;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) count += config.has_experts(layer) ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("decoder: parameters and FLOPs are those of the config's transformer", "[golden]") {
  const std::string catalog = std::string(ORRERY_SOURCE_DIR) + "/models/catalog";
  for (const std::string& name : catalog_models(catalog)) {
    if (name == "eager") continue;
    INFO(name);
    const ModelConfig config = load_model("catalog:" + name, catalog);
    // OPT, Falcon and Qwen with linear layers are for the serving model alone.
    if (config.layer_norm || config.linear.interval > 0) {
      CHECK_THROWS_WITH(built("decoder", R"({"config": "catalog:)" + name + R"("})"),
                        Catch::Matchers::Contains("expected a model of this builder"));
      continue;
    }
    const bool latent = config.latent.kv_rank > 0;
    const OpGraph graph =
        built("decoder", R"({"config": "catalog:)" + name + (latent ? "\"}" : R"(", "cache": true})"));
    CHECK(verify(graph).empty());
    // The bias that evens a router's choices out is no gradient's: it is not in the graph.
    const std::int64_t biases = config.experts.score_bias ? config.experts.count * expert_layers_of(config) : 0;
    CHECK(params(graph) == models::parameters(config) - biases);
    CHECK(graph.tensor(graph.with_role(TensorRole::parameter).front()).type ==
          element_type(config.dtype.value_or(hw::DType::bf16)));
  }
  const OpGraph llama = built("decoder", R"({"config": "catalog:llama-3-70b", "cache": true})");
  CHECK(params(llama) == 70'553'706'496);  // the published 70.6 billion
  // A decode step of 8 sequences over 1,000 cached tokens: every weight but the embedding's in one multiply-add a
  // sequence (the norms' 161 x 8192 aside), and 4 x 64 heads x 128 a pair of 1,001.
  const Bindings decode{{"batch", 8}, {"tokens", 1}, {"past", 1000}};
  const std::int64_t weights = 70'553'706'496 - 128256LL * 8192 - 161LL * 8192;
  CHECK(matrix_flops(llama, decode) == 2 * 8 * weights + 80LL * 4 * 64 * 128 * 8 * 1001);
  // A prompt of 512: causal, 512 x 513 / 2 pairs; logits of the last position alone.
  const Bindings prompt{{"batch", 1}, {"tokens", 512}, {"past", 0}};
  const std::int64_t layers = weights - 128256LL * 8192;
  CHECK(matrix_flops(llama, prompt) == 2 * (512 * layers + 128256LL * 8192) + 80LL * 4 * 64 * 128 * (512 * 513 / 2));
}

TEST_CASE("decoder: attention over latents, first dense layers and modules of further tokens", "[golden]") {
  // DeepSeek-V3 (arXiv 2412.19437, 4.2): 61 layers of 7,168, three of them dense with 18,432; 128 heads of 128 + 64,
  // values of 128, latents of 1,536 and 512; 256 experts of 2,048, eight a token beside a shared one.
  const std::int64_t h = 7168;
  const std::int64_t attention = h * 1536 + 1536 * 128 * 192 + h * (512 + 64) + 512 * 128 * 256 + 128 * 128 * h;
  const std::int64_t dense = 3 * h * 18432, routed = 9 * 3 * h * 2048 + h * 256, head = h * 129280;
  const Bindings prompt{{"batch", 1}, {"tokens", 512}};
  const std::int64_t scores = 61LL * 128 * (192 + 128) * 512 * 513;
  const OpGraph last = built("decoder", R"({"config": "catalog:deepseek-v3"})");
  CHECK(matrix_flops(last, prompt) == 2 * 512 * (61 * attention + 3 * dense + 58 * routed) + 2 * head + scores);
  const OpGraph loss = built("decoder", R"({"config": "catalog:deepseek-v3", "loss": true})");
  const std::int64_t trained = 2 * 512 * (61 * attention + 3 * dense + 58 * routed + head) + scores;
  CHECK(matrix_flops(loss, prompt) == trained);
  // A module: two norms joined to one width, a block with experts, the head once more.
  const OpGraph further = built("decoder", R"({"config": "catalog:deepseek-v3", "loss": true, "further_tokens": 1})");
  CHECK(matrix_flops(further, prompt) == trained + 2 * 512 * (2 * h * h + attention + routed + head) + scores / 61);
  CHECK(count(further, OpKind::cross_entropy) == 2);
  const std::int64_t block = attention + 1536 + 512 + 2 * h + h * 256 + 257 * 3 * h * 2048;
  CHECK(params(further) - params(loss) == block + 2 * h * h + 3 * h);  // norms of both, and before the head
  CHECK(verify(further).empty());
  CHECK_THROWS_WITH(built("decoder", R"({"config": "catalog:deepseek-v3", "cache": true})"),
                    Catch::Contains("expected no cache beside attention over a latent"));
  CHECK_THROWS_WITH(built("decoder", R"({"further_tokens": 1})"), Catch::Contains("expected none without a loss"));
  CHECK_THROWS_WITH(built("decoder", R"({"kv_rank": 64, "qk_norm": true})"),
                    Catch::Contains("/qk_norm: expected none beside attention over a latent"));
}

TEST_CASE("decoder: windows in turns with full attention, sinks, and biases of experts", "[golden]") {
  // gpt-oss-120b: layers 0, 2 … see 128 tokens. 117 billion parameters (OpenAI, 2508.10925: 116.83 without the head's).
  const OpGraph graph = built("decoder", R"({"config": "catalog:gpt-oss-120b", "loss": true})");
  CHECK(verify(graph).empty());
  int layer = 0;
  for (const OpId id : graph.ops()) {
    if (graph.op(id).kind != OpKind::attention) continue;
    CHECK(graph.op(id).integer("window", 0) == (layer++ % 2 == 0 ? 128 : 0));
    CHECK(graph.op(id).inputs.size() == 4);
  }
  CHECK(layer == 36);
  // A sequence of 4,096: 4,096 x 4,097 / 2 pairs in full, in a window 128 x 129 / 2 and 128 for each of the others.
  const OpGraph small = built("decoder", R"({"layers": 4, "window": 128, "full_every": 2, "loss": true})");
  const OpGraph full = built("decoder", R"({"layers": 4, "loss": true})");
  const Bindings sizes{{"batch", 2}, {"tokens", 4096}};
  const std::int64_t all = 4096LL * 4097 / 2, seen = 128LL * 129 / 2 + (4096 - 128) * 128LL;
  CHECK(matrix_flops(full, sizes) - matrix_flops(small, sizes) == 2 * 2 * 4LL * 32 * 64 * (all - seen));
  CHECK(params(small) == params(full));
  // Sinks: a logit a head.
  CHECK(params(built("decoder", R"({"layers": 4, "sinks": true})")) == params(full) + 4 * 32);
  // Without full_every every layer has the window; a window that is never reached changes nothing.
  const OpGraph each = built("decoder", R"({"layers": 4, "window": 128, "loss": true})");
  CHECK(matrix_flops(full, sizes) - matrix_flops(each, sizes) == 2 * 4 * 4LL * 32 * 64 * (all - seen));
  CHECK(matrix_flops(each, {{"batch", 1}, {"tokens", 128}}) == matrix_flops(full, {{"batch", 1}, {"tokens", 128}}));
  // A decode step of 4,000 cached tokens reads 128 in a layer with a window, a chunk of 100 its own and 127 before.
  const OpGraph cached = built("decoder", R"({"layers": 2, "window": 128, "full_every": 2, "cache": true})");
  const auto attention = [&](const Bindings& at, std::size_t place) {
    std::vector<hw::KernelShape> shapes;
    for (const GraphKernel& launch : lower(cached, at).kernels)
      if (launch.kernel.op == hw::OpClass::attention_prefill) shapes.push_back(launch.kernel.shape);
    return shapes.at(place);
  };
  const Bindings step{{"batch", 3}, {"tokens", 1}, {"past", 4000}},
      chunk{{"batch", 3}, {"tokens", 100}, {"past", 4000}};
  CHECK(std::get<hw::AttentionDecode>(attention(step, 0)).context_tokens == 3 * 128);
  CHECK(std::get<hw::AttentionDecode>(attention(step, 1)).context_tokens == 3 * 4001);
  const auto windowed = std::get<hw::AttentionPrefill>(attention(chunk, 0));
  CHECK(windowed.pairs == 3 * 100 * 128);
  CHECK(windowed.kv_tokens == 3 * 227);
  CHECK(windowed.window == 128);
  // Work counts what the kernels do.
  for (const OpId id : cached.ops()) {
    if (cached.op(id).kind != OpKind::attention) continue;
    for (const Bindings& at : {step, chunk}) {
      GraphLaunches launches;
      lower(cached, id, at, launches);
      const hw::Work kernel = hw::work_of(launches.kernels.at(0).kernel);
      const OpWork own = work(cached, id, at);
      CHECK(kernel.flops == static_cast<double>(own.matrix_flops.constant().value()));
      CHECK(kernel.read_bytes == static_cast<double>(own.read_bytes.constant().value()));
    }
  }
  // Eager modules: a mask for either kind of layer, and a column of sinks that the softmax reads and nobody else.
  const OpGraph eager =
      built("decoder", R"({"layers": 2, "window": 128, "full_every": 2, "sinks": true, "attention": "eager"})");
  CHECK(verify(eager).empty());
  int softmaxes = 0;
  for (const OpId id : eager.ops()) {
    if (eager.op(id).kind != OpKind::softmax) continue;
    ++softmaxes;
    CHECK(models::sizes(eager, eager.op(id).outputs.front(), {{"batch", 1}, {"tokens", 8}}).back() == 9);
  }
  CHECK(softmaxes == 2);
  CHECK_THROWS_WITH(built("decoder", R"({"full_every": 2})"),
                    Catch::Contains("/full_every: expected none without a window"));
}

TEST_CASE("decoder: a value head", "[unit]") {
  const std::string sizes = R"("layers": 1, "tied": false, "vocab": 1000)";
  const OpGraph logits = built("decoder", "{" + sizes + R"(, "loss": true})");
  const OpGraph value = built("decoder", "{" + sizes + R"(, "loss": true, "value_head": true})");
  CHECK(verify(value).empty());
  CHECK(params(logits) - params(value) == 999 * 2048);
  const Bindings batch{{"batch", 2}, {"tokens", 8}};
  CHECK(matrix_flops(logits, batch) - matrix_flops(value, batch) == 2 * 16 * 999 * 2048);
  CHECK(value.tensor(value.outputs().front()).shape.empty());  // a loss
  CHECK_THROWS_WITH(built("decoder", R"({"value_head": true, "sample": true})"),
                    Catch::Contains("/value_head: expected none beside tokens that are chosen or predicted"));
}

TEST_CASE("decoder: one graph is a prompt, a chunk and a decode step", "[unit]") {
  const OpGraph graph = built("decoder", R"({"layers": 2, "cache": true})");
  CHECK(verify(graph).empty());
  const auto attention = [&](const Bindings& sizes) {
    for (const GraphKernel& launch : lower(graph, sizes).kernels)
      if (launch.kernel.op == hw::OpClass::attention_prefill) return launch.kernel.shape;
    return hw::KernelShape{};
  };
  const auto chunk = std::get<hw::AttentionPrefill>(attention({{"batch", 3}, {"tokens", 128}, {"past", 384}}));
  CHECK(chunk.pairs == 3 * (128 * 384 + 128 * 129 / 2));
  const auto step = std::get<hw::AttentionDecode>(attention({{"batch", 3}, {"tokens", 1}, {"past", 511}}));
  CHECK(step.context_tokens == 3 * 512);
  CHECK(step.kv_heads == 8);
  // The new rows are written to the cache, no more: 3 x 8 heads x 1 x 64 of two bytes, read and written.
  for (const OpId id : graph.ops())
    if (graph.op(id).kind == OpKind::kv_write)
      CHECK(work(graph, id, {{"batch", 3}, {"tokens", 1}, {"past", 511}}).bytes() == SymExpr(2 * 3 * 8 * 64 * 2));
}

TEST_CASE("decoder: experts", "[golden]") {
  // Mixtral 8x7B: 46.7 billion parameters, 12.9 billion of them for a token (Mistral AI).
  const std::string sizes = R"("layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128,
      "intermediate": 14336, "vocab": 32000, "tied": false)";
  const OpGraph graph = built("decoder", "{" + sizes + R"(, "experts": 8, "experts_per_token": 2})");
  CHECK(verify(graph).empty());
  CHECK(params(graph) == 46'702'792'704);
  // One token: attention's and router's weights, two experts of three matrices, and the head, 2 FLOPs each.
  const std::int64_t layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 4096 * 8 + 2 * 3 * 4096 * 14336;
  const Bindings one{{"batch", 1}, {"tokens", 1}};
  CHECK(matrix_flops(graph, one) == 2LL * (32LL * layer + 4096 * 32000) + 32LL * 4 * 32 * 128);
  // No more experts are read than there are rows for: two of eight for one token.
  for (const OpId id : graph.ops())
    if (graph.op(id).kind == OpKind::grouped_matmul) CHECK(graph.op(id).expr("active_groups", 0).eval(one) == 2);
  // A product an expert: eight of 512 rows each for a batch of 2,048 tokens, gradients of rows too.
  const OpGraph apart = built("decoder", "{" + sizes + R"(, "experts": 8, "expert_products": "per_expert"})");
  const GraphLaunches launches = lower(apart, {{"batch", 1}, {"tokens", 2048}});
  int products = 0;
  for (const GraphKernel& launch : launches.kernels)
    if (launch.kernel.op == hw::OpClass::expert_up) {
      const auto& gemm = std::get<hw::Gemm>(launch.kernel.shape);
      CHECK((gemm.m == 512 && gemm.batch == 8 && gemm.n == 14336 && gemm.k == 4096));
      ++products;
    }
  CHECK(products == 2 * 32);
  // A shared expert is a dense feed-forward beside the others.
  const OpGraph shared = built("decoder", R"({"layers": 1, "experts": 4, "shared_intermediate": 256})");
  CHECK(count(shared, OpKind::grouped_matmul) == 3);
  CHECK(params(shared) - params(built("decoder", R"({"layers": 1, "experts": 4})")) == 3 * 2048 * 256);
}

TEST_CASE("transformer builders launch what the eager lists launch", "[unit]") {
  struct Case {
    const char* builder;
    const char* params;
    EagerFamily family;
    EagerAttention attention;
  };
  const Case cases[] = {
      {"bert", R"({"attention": "sdpa"})", EagerFamily::bert, EagerAttention::sdpa},
      {"bert", R"({"attention": "eager"})", EagerFamily::bert, EagerAttention::eager},
      {"gpt2", R"({"attention": "sdpa", "passes": "eager"})", EagerFamily::gpt2, EagerAttention::sdpa},
      {"gpt2", R"({"attention": "eager", "passes": "eager"})", EagerFamily::gpt2, EagerAttention::eager},
      {"decoder", R"({"attention": "eager", "passes": "eager", "dtype": "fp16"})", EagerFamily::llama,
       EagerAttention::eager},
  };
  for (const Case& one : cases) {
    INFO(one.builder << " " << one.params);
    const OpGraph graph = built(one.builder, one.params);
    CHECK(verify(graph).empty());
    EagerModel model{one.family, 12, 768, 12, 12, 64, 3072, one.family == EagerFamily::bert ? 30522 : 50257};
    if (one.family == EagerFamily::llama) model = {one.family, 16, 2048, 32, 8, 64, 8192, 128256};
    const auto kernels = eager_kernels(model, one.attention, hw::DType::fp16, 2, 512);
    const GraphLaunches launches = lower(graph, {{"batch", 2}, {"tokens", 512}});
    CHECK(launches.kernels.size() == kernels.size());
    CHECK(product_flops(launches) == product_flops(kernels));
    double listed = 0, made = 0;
    for (const hw::LaunchedKernel& kernel : kernels) listed += stream_bytes(kernel.kernel);
    for (const GraphKernel& launch : launches.kernels) made += stream_bytes(launch.kernel);
    CHECK(made == Approx(listed).epsilon(0.15));  // masks and tables are shapes here, whole tensors there
  }
}

TEST_CASE("decoder: a graph of passes does the work of one with library kernels", "[prop]") {
  const Bindings sizes{{"batch", 2}, {"tokens", 64}};
  const OpGraph library = built("decoder", R"({"layers": 2})"),
                passes = built("decoder", R"({"layers": 2, "passes": "eager"})");
  const OpGraph merged = built("decoder", R"({"layers": 2, "merged": true})");
  CHECK(params(library) == params(passes));
  CHECK(params(library) == params(merged));
  CHECK(lower(passes, sizes).kernels.size() > lower(library, sizes).kernels.size());
  CHECK(lower(merged, sizes).kernels.size() == lower(library, sizes).kernels.size() - 2 * 3);
  CHECK(matrix_flops(merged, sizes) == matrix_flops(library, sizes));
  // The rotation's angles are products too, of 32 x 1 by 1 x 64.
  CHECK(matrix_flops(passes, sizes) == matrix_flops(library, sizes) + 2 * 32 * 64);
}

TEST_CASE("transformer builders: training form", "[unit]") {
  for (const char* name : {"bert", "decoder", "gpt2"}) {
    const OpGraph graph =
        built(name, std::string(R"({"layers": 2, "loss": true, "dropout": 0.1, "attention": "eager")") +
                        (std::string(name) == "bert" ? R"(, "head": "mlm"})" : "}"));
    INFO(name);
    CHECK(verify(graph).empty());
    REQUIRE(graph.outputs().size() == 1);
    CHECK(graph.op(*graph.producer(graph.outputs()[0])).kind == OpKind::cross_entropy);
    // Attention's probabilities and two residuals a layer; and the embeddings of bert and gpt2.
    CHECK(count(graph, OpKind::dropout) == 2 * 3 + (std::string(name) == "decoder" ? 0 : 1));
  }
}

TEST_CASE("transformer builders: faults", "[unit]") {
  CHECK_THROWS_WITH(built("bert", R"({"heads": 7})"),
                    "builder bert:/heads: expected a divisor of the width 768, got 7");
  CHECK_THROWS_WITH(built("bert", R"({"loss": true})"), "builder bert:/loss: expected head \"mlm\" beside a loss");
  CHECK_THROWS_WITH(built("gpt2", R"({"heads": 5})"),
                    "builder gpt2:/heads: expected a divisor of the width 768, got 5");
  CHECK_THROWS_WITH(built("decoder", R"({"kv_heads": 5})"),
                    "builder decoder:/kv_heads: expected a divisor of 32 heads, got 5");
  CHECK_THROWS_WITH(built("decoder", R"({"experts": 2, "experts_per_token": 3})"),
                    "builder decoder:/experts_per_token: expected at most the 2 experts, got 3");
  CHECK_THROWS_WITH(built("decoder", R"({"loss": true, "cache": true})"),
                    "builder decoder:/loss: expected no loss beside a cache of keys and values");
  CHECK_THROWS_WITH(built("decoder", R"({"config": "catalog:lama-3-70b"})"), Catch::Contains("llama-3-70b"));
  CHECK_THROWS_WITH(built("decoder", R"({"layer": 4})"),
                    Catch::Contains("params.json:/layer") && Catch::Contains("layers"));
}

}  // namespace test_builders_transformers
