// Operator lists of random configs against closed forms, and the shards of tensor parallelism against the whole.
#include <catch2/catch.hpp>

#include "tests/models/support.hpp"

namespace orrery::models::test_closed_forms {
namespace {

const SymExpr T = size_of(Dim::tokens), R = size_of(Dim::logit_rows), Q = size_of(Dim::query_tokens),
              K = size_of(Dim::kv_tokens), P = size_of(Dim::pairs), S = size_of(Dim::sequences),
              C = size_of(Dim::context);

/// Weights of a layer's products, from the definitions of the matrices.
std::int64_t product_weights(const ModelConfig& c) {
  const std::int64_t wq = c.hidden_size * c.heads * c.head_dim, wo = wq;
  const std::int64_t wk = c.hidden_size * c.kv_heads * c.head_dim, wv = wk;
  return wq + wk + wv + wo + 3 * c.hidden_size * c.intermediate_size;
}

std::int64_t layer_biases(const ModelConfig& c) {
  return (c.qkv_bias ? (c.heads + 2 * c.kv_heads) * c.head_dim : 0) + (c.out_bias ? c.hidden_size : 0) +
         (c.mlp_bias ? 2 * c.intermediate_size + c.hidden_size : 0);
}

TEST_CASE("parameters, FLOPs and bytes of random configs equal closed forms", "[prop]") {
  test::Draw draw(7);
  for (int round = 0; round < 300; ++round) {
    const ModelConfig c = test::random_config(draw);
    const hw::DType dtype = test::random_dtype(draw);
    const std::int64_t e = hw::bytes_of(dtype), h = c.hidden_size, v = c.vocab_size, L = c.layers;
    const Transformer t = build_transformer(c, dtype, 1);
    const std::int64_t layer_norms = 2 * h + (c.qk_norm ? 2 * c.head_dim : 0);
    const std::int64_t weights = product_weights(c), biases = layer_biases(c);
    REQUIRE(parameters(c) == L * (weights + biases + layer_norms) + (c.tie_word_embeddings ? 1 : 2) * v * h + h);
    REQUIRE(rank_parameters(t) == parameters(c));
    REQUIRE(weight_bytes(t) == parameters(c) * e);
    REQUIRE(kv_bytes_per_token(t) == L * 2 * c.kv_heads * c.head_dim * e);

    const Totals sum = totals(t);
    const std::int64_t pair = L * 4 * c.heads * c.head_dim;
    REQUIRE(sum.matrix_flops == T * (2 * L * weights) + R * (2 * v * h) + (P + C) * pair);
    // Read once a launch: all but biases and the embedding, of which each token reads a row.
    REQUIRE(sum.weight_bytes == T * (h * e) + (L * (weights + layer_norms) + v * h + h) * e);
    // Written once a new token, read once a key that a chunk or a decode sees.
    REQUIRE(sum.kv_bytes == (T + K + C) * kv_bytes_per_token(t));
    REQUIRE(sum.reduced_bytes.is_zero());
    REQUIRE(sum.gathered_bytes.is_zero());

    // Activations a token and layer, in elements: 2 norms and 2 residuals of h; the products' inputs and outputs; q and
    // k through [norm and] rope with its table; k and v on their way to the cache; gate, up and their product.
    const std::int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim, i = c.intermediate_size;
    const std::int64_t elements = 2 * 2 * h + 2 * 3 * h + (h + q + 2 * kv) + (q + h) + (h + 2 * i) + (i + h) +
                                  (c.qk_norm ? 4 : 2) * (q + kv) + c.head_dim + 2 * kv + 3 * i;
    REQUIRE(sum.activation_bytes ==
            T * ((L * elements + h) * e) + (Q + S) * (L * 2 * q * e) + R * ((2 * h + h + v + v) * e + 4));
    const std::int64_t vector = 2 * 4 * h + 2 * h + 3 * (q + kv) + 5 * i + (c.qk_norm ? 4 * (q + kv) : 0);
    REQUIRE(sum.vector_flops == T * (L * vector) + R * (4 * h + v));
  }
}

TEST_CASE("shards of tensor parallelism sum to the whole but for what is replicated", "[prop]") {
  test::Draw draw(11);
  for (int round = 0; round < 300; ++round) {
    const ModelConfig c = test::random_config(draw);
    const hw::DType dtype = test::random_dtype(draw);
    const std::int64_t tp = std::int64_t{1} << draw.integer(0, 3);
    const std::int64_t e = hw::bytes_of(dtype), h = c.hidden_size, L = c.layers;
    const Transformer whole = build_transformer(c, dtype, 1);
    const Transformer rank = build_transformer(c, dtype, tp);

    // With more ranks than KV heads each is held tp / kv_heads times; the vocabulary is padded to a multiple of tp.
    const std::int64_t extra_kv = (tp * rank.kv_heads - c.kv_heads) * c.head_dim;
    REQUIRE(extra_kv == (tp > c.kv_heads ? (tp - c.kv_heads) * c.head_dim : 0));
    const std::int64_t extra_rows = tp * rank.vocab_rows - c.vocab_size;
    REQUIRE(extra_rows >= 0);
    REQUIRE(extra_rows < tp);

    // On every rank: norms, and biases of the row-parallel products.
    const std::int64_t replicated =
        L * (2 * h + (c.qk_norm ? 2 * c.head_dim : 0) + (c.out_bias ? h : 0) + (c.mlp_bias ? h : 0)) + h;
    REQUIRE(tp * rank_parameters(rank) - parameters(c) == (tp - 1) * replicated +
                                                              L * 2 * extra_kv * (h + (c.qkv_bias ? 1 : 0)) +
                                                              extra_rows * h * (c.tie_word_embeddings ? 1 : 2));
    REQUIRE(tp * kv_bytes_per_token(rank) - kv_bytes_per_token(whole) == L * 2 * extra_kv * e);

    const Totals one = totals(rank), all = totals(whole);
    REQUIRE(one.matrix_flops * tp == all.matrix_flops + T * (L * 2 * h * 2 * extra_kv) + R * (2 * h * extra_rows));
    REQUIRE(one.kv_bytes * tp == all.kv_bytes + (T + K + C) * (L * 2 * extra_kv * e));
    REQUIRE(one.reduced_bytes == (tp > 1 ? T * ((2 * L + 1) * h * e) : SymExpr()));
    REQUIRE(one.gathered_bytes == (tp > 1 ? R * ((c.vocab_size + extra_rows) * e) : SymExpr()));
  }
}

}  // namespace
}  // namespace orrery::models::test_closed_forms
