// Hand-computed counts of real models. A layer has h(a + 2k)d + adh weights of attention (hidden size h, a heads, k KV
// heads of d elements), 3hi of the feed-forward (intermediate size i) and 2h of norms; the edges have vh of embedding,
// vh of head (vocabulary v) and h of the final norm. A forward pass does 2 FLOPs a token and weight of a product, and
// 4ad a layer and pair of query and key.
#include <catch2/catch.hpp>

#include "models/transformer/lowering.hpp"
#include "tests/models/support.hpp"

namespace orrery::models::test_transformer {
namespace {

const SymExpr T = size_of(Dim::tokens), R = size_of(Dim::logit_rows), P = size_of(Dim::pairs),
              C = size_of(Dim::context);

Transformer of(const std::string& name, std::int64_t tp = 1, hw::DType dtype = hw::DType::fp16) {
  return build_transformer(test::model(name), dtype, tp);
}

TEST_CASE("parameter counts are the published ones", "[unit]") {
  // 32 (4*4096^2 + 3*4096*11008 + 2*4096) + 2*32000*4096 + 4096 = 32*202383360 + 262144000 + 4096
  CHECK(parameters(test::model("llama-2-7b")) == 6'738'415'616);
  // 40 (4*5120^2 + 3*5120*13824 + 2*5120) + 2*32000*5120 + 5120 = 40*317204480 + 327680000 + 5120
  CHECK(parameters(test::model("llama-2-13b")) == 13'015'864'320);
  // 80 (2*8192^2 + 2*8192*1024 + 3*8192*28672 + 2*8192) + 2*32000*8192 + 8192 = 80*855654400 + 524288000 + 8192
  CHECK(parameters(test::model("llama-2-70b")) == 68'976'648'192);
  // 32 (2*4096^2 + 2*4096*1024 + 3*4096*14336 + 2*4096) + 2*128256*4096 + 4096 = 32*218112000 + 1050673152 + 4096
  CHECK(parameters(test::model("llama-3-8b")) == 8'030'261'248);
  CHECK(parameters(test::model("llama-3.1-8b")) == 8'030'261'248);
  // The head is the embedding, held once:
  // 16 (2*2048^2 + 2*2048*512 + 3*2048*8192 + 2*2048) + 128256*2048 + 2048 = 16*60821504 + 262668288 + 2048
  CHECK(parameters(test::model("llama-3.2-1b")) == 1'235'814'400);
  // 80*855654400 + 2*128256*8192 + 8192 = 68452352000 + 2101346304 + 8192
  CHECK(parameters(test::model("llama-3-70b")) == 70'553'706'496);
  CHECK(parameters(test::model("llama-3.1-70b")) == 70'553'706'496);
  // 32*218112000 + 2*32768*4096 + 4096 = 6979584000 + 268435456 + 4096
  CHECK(parameters(test::model("mistral-7b")) == 7'248'023'552);
  // 36 (2*4096^2 + 2*4096*1024 + 3*4096*12288 + 2*4096 + 2*128 of q and k norms) + 2*151936*4096 + 4096
  //   = 36*192946432 + 1244659712 + 4096
  CHECK(parameters(test::model("qwen3-8b")) == 8'190'735'360);
}

TEST_CASE("a cached token takes 2 * layers * KV heads * head_dim elements", "[unit]") {
  CHECK(kv_bytes_per_token(of("llama-2-7b")) == 524'288);   // 2*32*32*128 * 2 B
  CHECK(kv_bytes_per_token(of("llama-3-8b")) == 131'072);   // 2*32*8*128 * 2 B
  CHECK(kv_bytes_per_token(of("llama-3-70b")) == 327'680);  // 2*80*8*128 * 2 B
  CHECK(kv_bytes_per_token(of("qwen3-8b")) == 147'456);     // 2*36*8*128 * 2 B
  CHECK(kv_bytes_per_token(of("llama-3-70b", 4)) == 81'920);
  CHECK(kv_bytes_per_token(of("llama-3-70b", 8)) == 40'960);
  CHECK(kv_bytes_per_token(of("llama-3-70b", 16)) == 40'960);  // one KV head on two ranks each
  CHECK(kv_bytes_per_token(of("llama-3-8b", 1, hw::DType::fp8)) == 65'536);
  CHECK(kv_bytes_per_token_layer(of("llama-3-8b")) == 4096);
}

TEST_CASE("weight bytes of a rank", "[unit]") {
  CHECK(weight_bytes(of("llama-2-7b")) == 13'476'831'232);  // 6738415616 * 2 B
  CHECK(weight_bytes(of("llama-2-7b", 1, hw::DType::fp32)) == 26'953'662'464);
  // Two ranks halve all but the norms, 32*2*4096 + 4096 = 266240: (6738415616 - 266240)/2 + 266240 = 3369340928
  CHECK(rank_parameters(of("llama-2-7b", 2)) == 3'369'340'928);
  CHECK(weight_bytes(of("llama-2-7b", 2)) == 6'738'681'856);
  // Llama-3-70B on 16 ranks: 4 query heads and 1 KV head of 128, 28672/16 = 1792, 128256/16 = 8016 rows:
  // layer 8192*(4+2)*128 + 4*128*8192 + 3*8192*1792 + 2*8192 = 6291456 + 4194304 + 44040192 + 16384 = 54542336
  const Transformer t = of("llama-3-70b", 16);
  CHECK(layer_parameters(t) == 54'542'336);
  CHECK(embedding_parameters(t) == 65'667'072);  // 8016*8192
  CHECK(head_parameters(t) == 65'675'264);       // 8016*8192 + 8192
  CHECK(rank_parameters(t) == 4'494'729'216);    // 80*54542336 + 65667072 + 65675264
}

TEST_CASE("a vocabulary that ranks do not divide is padded", "[unit]") {
  ModelConfig c = test::model("llama-2-7b");
  c.vocab_size = 32001;
  const Transformer t = build_transformer(c, hw::DType::fp16, 4);
  CHECK(t.vocab_rows == 8001);  // 32004 rows over 4 ranks
  CHECK(embedding_parameters(t) == 8001 * 4096);
}

TEST_CASE("a tied head holds no table of its own", "[unit]") {
  ModelConfig c = test::model("llama-2-7b");
  c.tie_word_embeddings = true;
  CHECK(parameters(c) == 6'738'415'616 - 32000 * 4096);
  const Transformer t = build_transformer(c, hw::DType::fp16, 1);
  CHECK(head_parameters(t) == 4096);
  // What it reads is the same.
  CHECK(totals(t).weight_bytes == totals(of("llama-2-7b")).weight_bytes);
}

TEST_CASE("FLOPs of a forward pass are two a weight and token and 4 heads head_dim a pair", "[unit]") {
  // Layers: 2*32*(4*4096^2 + 3*4096*11008) = 64*202375168 = 12952010752 a token; head 2*32000*4096 = 262144000 a row;
  // attention 32*4*32*128 = 524288 a pair.
  const Totals sum = totals(of("llama-2-7b"));
  CHECK(sum.matrix_flops == T * 12'952'010'752 + R * 262'144'000 + P * 524'288 + C * 524'288);
  CHECK(sum.matrix_flops.to_string(batch_symbols()) == "12952010752*T + 262144000*R + 524288*P + 524288*C");
  // Llama-3-8B: 64*(2*4096^2 + 2*4096*1024 + 3*4096*14336) = 64*218103808; head 2*128256*4096.
  CHECK(totals(of("llama-3-8b")).matrix_flops == T * 13'958'643'712 + R * 1'050'673'152 + P * 524'288 + C * 524'288);
}

TEST_CASE("FLOPs of a whole prefill and of a decode step", "[unit]") {
  const Transformer t = of("llama-2-7b");
  // A prompt of 512: 512*13214154752 less 511 rows of head, and 512*513/2 = 131328 pairs:
  // 512*12952010752 + 262144000 + 131328*524288 = 6631429505024 + 262144000 + 68853694464
  BatchDims prompt{.tokens = 512, .logit_rows = 1};
  prompt.prefill.add(512, 0);
  CHECK(matrix_flops(t, prompt) == 6'700'545'343'488);
  // The same in chunks of 200 and 312 does the same products and pairs, and no head in the first:
  BatchDims first{.tokens = 200}, second{.tokens = 312, .logit_rows = 1};
  first.prefill.add(200, 0);
  second.prefill.add(312, 200);
  CHECK(matrix_flops(t, first) + matrix_flops(t, second) == 6'700'545'343'488);
  // Four sequences decode with 100 + 200 + 300 + 400 = 1000 tokens of context:
  // 4*12952010752 + 4*262144000 + 1000*524288 = 51808043008 + 1048576000 + 524288000
  BatchDims decode{.tokens = 4, .logit_rows = 4};
  for (const std::int64_t context : {100, 200, 300, 400}) decode.decode.add(context);
  CHECK(matrix_flops(t, decode) == 53'380'907'008);
}

TEST_CASE("sums of a batch", "[unit]") {
  PrefillSums p;
  p.add(3, 0);    // 1 + 2 + 3 pairs
  p.add(2, 10);   // 11 + 12 pairs
  p.add(128, 0);  // one tile
  p.add(129, 0);  // two
  CHECK(p.sequences == 4);
  CHECK(p.q_tokens == 262);
  CHECK(p.kv_tokens == 272);
  CHECK(p.pairs == 6 + 23 + 128 * 129 / 2 + 129 * 130 / 2);
  CHECK(p.q_tiles == 5);
}

TEST_CASE("operators come in the order of execution", "[unit]") {
  const auto names = [](const std::vector<Op>& ops) {
    std::vector<std::string> all;
    for (const Op& op : ops) all.push_back(op.name);
    return all;
  };
  const Transformer one = of("llama-2-7b");
  CHECK(names(one.embedding) == std::vector<std::string>{"embedding"});
  CHECK(names(one.kinds[0].ops) == std::vector<std::string>{"attention_norm", "qkv_proj", "rope", "kv_write",
                                                            "attention_prefill", "attention_decode", "out_proj",
                                                            "attention_residual", "ffn_norm", "ffn_up", "activation",
                                                            "ffn_down", "ffn_residual"});
  CHECK(names(one.head) == std::vector<std::string>{"final_norm", "lm_head", "sampling"});
  const Transformer two = of("qwen3-8b", 2);
  CHECK(names(two.embedding) == std::vector<std::string>{"embedding", "embedding_all_reduce"});
  CHECK(names(two.kinds[0].ops) ==
        std::vector<std::string>{"attention_norm", "qkv_proj", "qk_norm", "rope", "kv_write", "attention_prefill",
                                 "attention_decode", "out_proj", "out_all_reduce", "attention_residual", "ffn_norm",
                                 "ffn_up", "activation", "ffn_down", "ffn_all_reduce", "ffn_residual"});
  CHECK(names(two.head) == std::vector<std::string>{"final_norm", "lm_head", "logits_all_gather", "sampling"});
}

TEST_CASE("collectives leave the hidden state twice a layer, and the logits", "[unit]") {
  const Totals sum = totals(of("llama-2-7b", 4));
  CHECK(sum.reduced_bytes == T * (65 * 4096 * 2));  // (2*32 + 1 of the embedding) * 4096 * 2 B
  CHECK(sum.gathered_bytes == R * (32000 * 2));
  CHECK(totals(of("llama-2-7b")).reduced_bytes.is_zero());
}

TEST_CASE("ranks that do not fit are a fault where they are given", "[unit]") {
  const sim::Origin where{"run.json", "/machine/tp"};
  const ModelConfig c = test::model("llama-2-7b");
  CHECK_THROWS_WITH(build_transformer(c, hw::DType::fp16, 0, where),
                    "run.json:/machine/tp: expected at least 1 rank of tensor parallelism, got 0");
  CHECK_THROWS_WITH(
      build_transformer(c, hw::DType::fp16, 3, where),
      "run.json:/machine/tp: expected ranks of tensor parallelism that divide the 32 attention heads, got 3");
  ModelConfig odd = c;
  odd.intermediate_size = 11010;
  CHECK_THROWS_WITH(
      build_transformer(odd, hw::DType::fp16, 4, where),
      "run.json:/machine/tp: expected ranks of tensor parallelism that divide the intermediate size 11010, got 4");
  ModelConfig uneven = c;
  uneven.heads = 24;
  uneven.kv_heads = 4;
  uneven.intermediate_size = 6144;
  CHECK_THROWS_WITH(build_transformer(uneven, hw::DType::fp16, 6, where),
                    "run.json:/machine/tp: expected ranks of tensor parallelism that divide the 4 KV heads or are a "
                    "multiple of them, got 6");
  CHECK_FALSE(tp_obstacle(uneven, 8).has_value());
}

}  // namespace
}  // namespace orrery::models::test_transformer
