#include <catch2/catch.hpp>

#include "models/transformer/lowering.hpp"
#include "tests/allocations.hpp"
#include "tests/models/support.hpp"

namespace orrery::models::test_lowering {
namespace {

BatchDims random_batch(test::Draw& draw) {
  BatchDims batch;
  for (std::int64_t chunks = draw.integer(0, 4); chunks > 0; --chunks) {
    const std::int64_t tokens = draw.integer(1, 700);
    batch.prefill.add(tokens, draw.integer(0, 3000));
    batch.tokens += tokens;
    batch.logit_rows += draw.integer(0, 1);
  }
  for (std::int64_t decodes = draw.integer(0, 5); decodes > 0; --decodes) {
    batch.decode.add(draw.integer(1, 4000));
    ++batch.tokens;
    ++batch.logit_rows;
  }
  return batch;
}

struct Sum {
  double flops = 0, bytes = 0, collective_bytes = 0;
};
Sum sum_of(const Launches& launches) {
  Sum sum;
  for (const hw::Kernel& kernel : launches.kernels) {
    const hw::Work work = hw::work_of(kernel);
    sum.flops += work.flops;
    sum.bytes += work.read_bytes + work.write_bytes;
  }
  for (const Communication& c : launches.communications) sum.collective_bytes += static_cast<double>(c.bytes);
  return sum;
}

bool same(const hw::Kernel& a, const hw::Kernel& b) {
  const hw::Work x = hw::work_of(a), y = hw::work_of(b);
  return a.op == b.op && a.dtype == b.dtype && a.shape.index() == b.shape.index() && x.flops == y.flops &&
         x.read_bytes == y.read_bytes && x.write_bytes == y.write_bytes;
}

/// Sum of the operators that have work in the batch, from their symbolic expressions.
Sum symbolic(const std::vector<Op>& ops, const BatchDims& batch) {
  const BatchSizes at = batch.bindings();
  Sum sum;
  for (const Op& op : ops) {
    if (at[op.rows] == 0) continue;
    sum.flops += static_cast<double>(op.flops.eval(at.values()));
    sum.bytes += static_cast<double>((op.weight_bytes + op.activation_bytes + op.kv_bytes).eval(at.values()));
    if (const auto* c = std::get_if<CollectiveShape>(&op.shape))
      sum.collective_bytes += static_cast<double>(c->bytes.eval(at.values()));
  }
  return sum;
}

TEST_CASE("kernels of a layer of Llama-2-7B", "[unit]") {
  const Transformer t = build_transformer(test::model("llama-2-7b"), hw::DType::fp16, 2);
  BatchDims batch{.tokens = 130, .logit_rows = 3};
  batch.prefill.add(128, 64);
  batch.decode.add(500);
  batch.decode.add(700);
  Launches out;
  lower_layer(t, batch, out);
  REQUIRE(out.kernels.size() == 13);
  using hw::OpClass;
  const OpClass order[] = {OpClass::norm,     OpClass::qkv_proj,          OpClass::rope,
                           OpClass::kv_write, OpClass::attention_prefill, OpClass::attention_decode,
                           OpClass::out_proj, OpClass::residual,          OpClass::norm,
                           OpClass::ffn_up,   OpClass::activation,        OpClass::ffn_down,
                           OpClass::residual};
  for (std::size_t i = 0; i < out.kernels.size(); ++i) CHECK(out.kernels[i].op == order[i]);

  const auto qkv = std::get<hw::Gemm>(out.kernels[1].shape);
  CHECK(qkv.m == 130);
  CHECK(qkv.n == 6144);  // 3 * 16 heads * 128
  CHECK(qkv.k == 4096);
  CHECK(qkv.batch == 1);
  const auto prefill = std::get<hw::AttentionPrefill>(out.kernels[4].shape);
  CHECK(prefill.sequences == 1);
  CHECK(prefill.q_tokens == 128);
  CHECK(prefill.kv_tokens == 192);
  CHECK(prefill.pairs == 128 * 64 + 128 * 129 / 2);
  CHECK(prefill.q_tiles == 1);
  CHECK(prefill.heads == 16);
  CHECK(prefill.kv_heads == 16);
  CHECK(prefill.head_dim == 128);
  const auto decode = std::get<hw::AttentionDecode>(out.kernels[5].shape);
  CHECK(decode.sequences == 2);
  CHECK(decode.context_tokens == 1200);
  CHECK(decode.heads == 16);
  const auto up = std::get<hw::Gemm>(out.kernels[9].shape);
  CHECK(up.n == 11008);  // gate and up, 5504 each
  const auto down = std::get<hw::Gemm>(out.kernels[11].shape);
  CHECK(down.n == 4096);
  CHECK(down.k == 5504);
  const auto norm = std::get<hw::Streaming>(out.kernels[0].shape);
  CHECK(norm.read_bytes == 131 * 4096 * 2);  // 130 rows and the weights
  CHECK(norm.write_bytes == 130 * 4096 * 2);
  CHECK(norm.flops == 4 * 130 * 4096);

  REQUIRE(out.communications.size() == 2);
  for (const Communication& c : out.communications) {
    CHECK(c.kind == Collective::all_reduce);
    CHECK(c.op == OpClass::all_reduce);
    CHECK(c.bytes == 130 * 4096 * 2);
    CHECK(c.ranks == 2);
  }
  CHECK(out.communications[0].after == 7);   // out_proj and what is before it
  CHECK(out.communications[1].after == 12);  // ffn_down
}

TEST_CASE("kernels of the edges", "[unit]") {
  const Transformer t = build_transformer(test::model("llama-2-7b"), hw::DType::fp16, 2);
  const BatchDims batch{.tokens = 10, .logit_rows = 3};
  Launches out;
  lower_edges(t, batch, true, true, out);
  REQUIRE(out.kernels.size() == 4);
  const auto gather = std::get<hw::Streaming>(out.kernels[0].shape);
  CHECK(gather.read_bytes == 10 * 4096 * 2);
  CHECK(gather.write_bytes == 10 * 4096 * 2);
  const auto head = std::get<hw::Gemm>(out.kernels[2].shape);
  CHECK(head.m == 3);
  CHECK(head.n == 16000);
  CHECK(head.k == 4096);
  const auto sampling = std::get<hw::Streaming>(out.kernels[3].shape);
  CHECK(sampling.read_bytes == 3 * 32000 * 2);
  CHECK(sampling.write_bytes == 3 * 4);
  REQUIRE(out.communications.size() == 2);
  CHECK(out.communications[0].bytes == 10 * 4096 * 2);
  CHECK(out.communications[0].after == 1);
  CHECK(out.communications[1].kind == Collective::all_gather);
  CHECK(out.communications[1].bytes == 3 * 32000 * 2);
  CHECK(out.communications[1].after == 3);

  out.clear();
  lower_edges(t, batch, false, false, out);
  CHECK(out.kernels.empty());
  lower_edges(t, {.tokens = 10, .logit_rows = 0}, false, true, out);  // a chunk that ends no prompt
  CHECK(out.kernels.empty());
  CHECK(out.communications.empty());
}

TEST_CASE("what has no work is not launched", "[unit]") {
  const Transformer t = build_transformer(test::model("qwen3-8b"), hw::DType::fp16, 4);
  Launches out;
  lower_layer(t, {}, out);
  lower_dense(t, 0, out);
  lower_attention(t, {}, {}, out);
  lower_embedding(t, 0, out);
  lower_head(t, 0, out);
  CHECK(out.kernels.empty());
  CHECK(out.communications.empty());
  DecodeSums decode;
  decode.add(10);
  lower_attention(t, {}, decode, out);
  REQUIRE(out.kernels.size() == 1);
  CHECK(out.kernels[0].op == hw::OpClass::attention_decode);
}

TEST_CASE("lowered kernels do the work that the expressions say", "[prop]") {
  test::Draw draw(3);
  for (int round = 0; round < 300; ++round) {
    const Transformer t =
        build_transformer(test::random_config(draw), test::random_dtype(draw), std::int64_t{1} << draw.integer(0, 3));
    const BatchDims batch = random_batch(draw);
    Launches layer, edges;
    lower_layer(t, batch, layer);
    lower_edges(t, batch, true, true, edges);
    std::vector<Op> edge_ops = t.embedding;
    edge_ops.insert(edge_ops.end(), t.head.begin(), t.head.end());
    const std::pair<const std::vector<Op>*, const Launches*> parts[] = {{&t.kinds[0].ops, &layer}, {&edge_ops, &edges}};
    for (const auto& [ops, launches] : parts) {
      const Sum want = symbolic(*ops, batch), got = sum_of(*launches);
      REQUIRE(got.flops == want.flops);  // below 2^53, so doubles are exact
      REQUIRE(want.flops < 9e15);
      REQUIRE(got.bytes == want.bytes);
      REQUIRE(got.collective_bytes == want.collective_bytes);
    }
  }
}

TEST_CASE("dense parts and attention together are the layer", "[prop]") {
  test::Draw draw(5);
  for (int round = 0; round < 100; ++round) {
    const Transformer t =
        build_transformer(test::random_config(draw), hw::DType::bf16, std::int64_t{1} << draw.integer(0, 3));
    const BatchDims batch = random_batch(draw);
    Launches layer, dense, attention;
    lower_layer(t, batch, layer);
    lower_dense(t, batch.tokens, dense);
    lower_attention(t, batch.prefill, batch.decode, attention);
    REQUIRE(layer.kernels.size() == dense.kernels.size() + attention.kernels.size());
    REQUIRE(layer.communications.size() == dense.communications.size());
    std::size_t d = 0, a = 0;
    for (const hw::Kernel& kernel : layer.kernels) {
      const bool from_attention =
          kernel.op == hw::OpClass::attention_prefill || kernel.op == hw::OpClass::attention_decode;
      REQUIRE(same(kernel, from_attention ? attention.kernels[a++] : dense.kernels[d++]));
    }
  }
}

TEST_CASE("lowering into vectors with room allocates nothing", "[unit]") {
  const Transformer t = build_transformer(test::model("qwen3-8b"), hw::DType::fp16, 2);
  BatchDims batch{.tokens = 101, .logit_rows = 1};
  batch.prefill.add(100, 0);
  batch.decode.add(77);
  Launches out;
  lower_layer(t, batch, out);
  lower_edges(t, batch, true, true, out);
  out.clear();
  const std::int64_t before = orrery::test::allocations();
  lower_layer(t, batch, out);
  lower_edges(t, batch, true, true, out);
  const std::int64_t after = orrery::test::allocations();
  CHECK(before > 0);
  CHECK(after == before);
}

TEST_CASE("a batch past 64 bits is refused", "[unit]") {
  const Transformer t = build_transformer(test::model("llama-3-70b"), hw::DType::fp16, 1);
  Launches out;
  CHECK_THROWS_AS(lower_dense(t, std::int64_t{1} << 60, out), std::overflow_error);
}

}  // namespace
}  // namespace orrery::models::test_lowering
