#include "models/transformer.hpp"

#include <fmt/format.h>

#include <utility>

namespace orrery::models {
namespace {

// FLOPs an element of the passes over memory, by convention: square, add, scale, weight; per pair of a head 4 products
// and 2 sums; add; negate, exponential, add, divide, and the product with up; one comparison a logit (greedy).
constexpr std::int64_t kNormFlops = 4, kRopeFlops = 3, kResidualFlops = 1, kActivationFlops = 5, kSamplingFlops = 1;
constexpr std::int64_t kTokenIdBytes = 4;

/// Bytes of a pass, by what they are.
struct Pass {
  std::int64_t weights = 0;  ///< parameters held and read
  SymExpr reads, writes, kv_writes;
};

/// Makes the operators of one rank.
class Builder {
 public:
  explicit Builder(Transformer& t) : t_(t), c_(t.config), element_(hw::bytes_of(t.dtype)) {}

  void build() {
    t_.embedding = embedding();
    t_.layer = layer();
    t_.head = head();
  }

 private:
  /// Bytes of `width` elements a row of `rows`.
  SymExpr bytes(Dim rows, std::int64_t width) const { return size_of(rows) * (width * element_); }

  Op gemm(hw::OpClass op, Dim rows, std::int64_t n, std::int64_t k, std::int64_t biases) const {
    Op out{.name = std::string(hw::to_string(op)), .op = op, .rows = rows, .shape = GemmShape{n, k}};
    out.parameters = n * k + biases;
    out.flops = size_of(rows) * (2 * n * k);
    out.weight_bytes = n * k * element_;
    out.activation_bytes = bytes(rows, n + k);
    return out;
  }

  Op pass(std::string name, hw::OpClass op, Dim rows, std::int64_t flops_per_row, const Pass& p) const {
    Op out{.name = std::move(name), .op = op, .rows = rows};
    out.parameters = p.weights;
    out.flops = size_of(rows) * flops_per_row;
    out.weight_bytes = p.weights * element_;
    out.activation_bytes = p.reads + p.writes;
    out.kv_bytes = p.kv_writes;
    out.shape = StreamShape{out.weight_bytes + p.reads, p.writes + p.kv_writes};
    return out;
  }

  /// RMS norm of rows of `width` elements, in groups that share `weights` parameters.
  Op norm(std::string name, Dim rows, std::int64_t width, std::int64_t weights) const {
    return pass(std::move(name), hw::OpClass::norm, rows, kNormFlops * width,
                {.weights = weights, .reads = bytes(rows, width), .writes = bytes(rows, width)});
  }

  Op attention(hw::OpClass op, Dim queries, Dim pairs, Dim keys) const {
    const std::int64_t q_width = t_.heads * c_.head_dim;
    Op out{.name = std::string(hw::to_string(op)), .op = op, .rows = queries};
    out.shape = AttentionShape{t_.heads, t_.kv_heads, c_.head_dim};
    out.flops = size_of(pairs) * (4 * q_width);
    out.activation_bytes = bytes(queries, 2 * q_width);
    out.kv_bytes = bytes(keys, 2 * t_.kv_heads * c_.head_dim);
    return out;
  }

  Op collective(std::string name, Collective kind, Dim rows, std::int64_t width) const {
    return {.name = std::move(name),
            .op = hw::OpClass::all_reduce,
            .rows = rows,
            .shape = CollectiveShape{kind, bytes(rows, width), t_.tp}};
  }

  /// The all-reduce after a row-parallel operator, if there is anybody to reduce with.
  void reduce(std::vector<Op>& ops, std::string name) const {
    if (t_.tp > 1) ops.push_back(collective(std::move(name), Collective::all_reduce, Dim::tokens, c_.hidden_size));
  }

  Op residual(std::string name) const {
    return pass(std::move(name), hw::OpClass::residual, Dim::tokens, kResidualFlops * c_.hidden_size,
                {.reads = bytes(Dim::tokens, 2 * c_.hidden_size), .writes = bytes(Dim::tokens, c_.hidden_size)});
  }

  std::vector<Op> layer() const {
    using hw::OpClass;
    const std::int64_t h = c_.hidden_size;
    const std::int64_t q = t_.heads * c_.head_dim;
    const std::int64_t kv = t_.kv_heads * c_.head_dim;
    const std::int64_t inner = t_.intermediate_size;
    std::vector<Op> ops;
    ops.push_back(norm("attention_norm", Dim::tokens, h, h));
    ops.push_back(gemm(OpClass::qkv_proj, Dim::tokens, q + 2 * kv, h, c_.qkv_bias ? q + 2 * kv : 0));
    if (c_.qk_norm) ops.push_back(norm("qk_norm", Dim::tokens, q + kv, 2 * c_.head_dim));
    // Reads the token's sines and cosines, head_dim elements, besides q and k.
    ops.push_back(pass("rope", OpClass::rope, Dim::tokens, kRopeFlops * (q + kv),
                       {.reads = bytes(Dim::tokens, q + kv + c_.head_dim), .writes = bytes(Dim::tokens, q + kv)}));
    ops.push_back(pass("kv_write", OpClass::kv_write, Dim::tokens, 0,
                       {.reads = bytes(Dim::tokens, 2 * kv), .kv_writes = bytes(Dim::tokens, 2 * kv)}));
    ops.push_back(attention(OpClass::attention_prefill, Dim::query_tokens, Dim::pairs, Dim::kv_tokens));
    ops.push_back(attention(OpClass::attention_decode, Dim::sequences, Dim::context, Dim::context));
    ops.push_back(gemm(OpClass::out_proj, Dim::tokens, h, q, c_.out_bias ? h : 0));
    reduce(ops, "out_all_reduce");
    ops.push_back(residual("attention_residual"));
    ops.push_back(norm("ffn_norm", Dim::tokens, h, h));
    ops.push_back(gemm(OpClass::ffn_up, Dim::tokens, 2 * inner, h, c_.mlp_bias ? 2 * inner : 0));
    ops.push_back(pass("activation", OpClass::activation, Dim::tokens, kActivationFlops * inner,
                       {.reads = bytes(Dim::tokens, 2 * inner), .writes = bytes(Dim::tokens, inner)}));
    ops.push_back(gemm(OpClass::ffn_down, Dim::tokens, h, inner, c_.mlp_bias ? h : 0));
    reduce(ops, "ffn_all_reduce");
    ops.push_back(residual("ffn_residual"));
    return ops;
  }

  std::vector<Op> embedding() const {
    const std::int64_t h = c_.hidden_size;
    // The rank is taken to own every token's row: the most that a rank can read.
    Op gather{.name = "embedding", .op = hw::OpClass::embedding, .rows = Dim::tokens};
    gather.parameters = t_.vocab_rows * h;
    gather.weight_bytes = bytes(Dim::tokens, h);
    gather.activation_bytes = bytes(Dim::tokens, h);
    gather.shape = StreamShape{gather.weight_bytes, gather.activation_bytes};
    std::vector<Op> ops{std::move(gather)};
    reduce(ops, "embedding_all_reduce");
    return ops;
  }

  std::vector<Op> head() const {
    const std::int64_t h = c_.hidden_size;
    const std::int64_t vocab = t_.vocab_rows * t_.tp;
    std::vector<Op> ops;
    ops.push_back(norm("final_norm", Dim::logit_rows, h, h));
    ops.push_back(gemm(hw::OpClass::lm_head, Dim::logit_rows, t_.vocab_rows, h, 0));
    if (c_.tie_word_embeddings) ops.back().parameters = 0;
    if (t_.tp > 1) ops.push_back(collective("logits_all_gather", Collective::all_gather, Dim::logit_rows, vocab));
    ops.push_back(
        pass("sampling", hw::OpClass::sampling, Dim::logit_rows, kSamplingFlops * c_.vocab_size,
             {.reads = bytes(Dim::logit_rows, c_.vocab_size), .writes = size_of(Dim::logit_rows) * kTokenIdBytes}));
    return ops;
  }

  Transformer& t_;
  const ModelConfig& c_;
  std::int64_t element_;
};

std::int64_t held(const std::vector<Op>& ops) {
  std::int64_t sum = 0;
  for (const Op& op : ops) sum += op.parameters;
  return sum;
}

/// The share of one rank of `tp`, which has no obstacle.
Transformer build(const ModelConfig& config, hw::DType dtype, std::int64_t tp) {
  Transformer t;
  t.config = config;
  t.dtype = dtype;
  t.tp = tp;
  t.heads = config.heads / tp;
  t.kv_heads = config.kv_heads >= tp ? config.kv_heads / tp : 1;
  t.intermediate_size = config.intermediate_size / tp;
  t.vocab_rows = (config.vocab_size + tp - 1) / tp;
  Builder(t).build();
  return t;
}

}  // namespace

std::string_view to_string(Collective kind) {
  switch (kind) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::all_gather:
      return "all_gather";
  }
  return "unknown";
}

bool is_matrix(const Op& op) {
  return std::holds_alternative<GemmShape>(op.shape) || std::holds_alternative<AttentionShape>(op.shape);
}

std::optional<std::string> tp_obstacle(const ModelConfig& config, std::int64_t tp) {
  if (tp < 1) return fmt::format("expected at least 1 rank of tensor parallelism, got {}", tp);
  if (config.heads % tp != 0)
    return fmt::format("expected ranks of tensor parallelism that divide the {} attention heads, got {}", config.heads,
                       tp);
  if (config.intermediate_size % tp != 0)
    return fmt::format("expected ranks of tensor parallelism that divide the intermediate size {}, got {}",
                       config.intermediate_size, tp);
  if (config.kv_heads % tp != 0 && tp % config.kv_heads != 0)
    return fmt::format(
        "expected ranks of tensor parallelism that divide the {} KV heads or are a multiple of them, got {}",
        config.kv_heads, tp);
  return std::nullopt;
}

Transformer build_transformer(const ModelConfig& config, hw::DType dtype, std::int64_t tp, const sim::Origin& where) {
  if (std::optional<std::string> obstacle = tp_obstacle(config, tp)) sim::throw_fault(where, std::move(*obstacle));
  return build(config, dtype, tp);
}

std::int64_t parameters(const ModelConfig& config) {
  return rank_parameters(build(config, hw::DType::fp16, 1));
}

std::int64_t layer_parameters(const Transformer& t) {
  return held(t.layer);
}
std::int64_t embedding_parameters(const Transformer& t) {
  return held(t.embedding);
}
std::int64_t head_parameters(const Transformer& t) {
  return held(t.head);
}

std::int64_t rank_parameters(const Transformer& t) {
  return embedding_parameters(t) + t.config.layers * layer_parameters(t) + head_parameters(t);
}

std::int64_t weight_bytes(const Transformer& t) {
  return rank_parameters(t) * hw::bytes_of(t.dtype);
}

std::int64_t kv_bytes_per_token_layer(const Transformer& t) {
  return 2 * t.kv_heads * t.config.head_dim * hw::bytes_of(t.dtype);
}
std::int64_t kv_bytes_per_token(const Transformer& t) {
  return t.config.layers * kv_bytes_per_token_layer(t);
}

void Totals::add(const std::vector<Op>& ops, std::int64_t times) {
  for (const Op& op : ops) {
    (is_matrix(op) ? matrix_flops : vector_flops) += op.flops * times;
    weight_bytes += op.weight_bytes * times;
    activation_bytes += op.activation_bytes * times;
    kv_bytes += op.kv_bytes * times;
    if (const auto* collective = std::get_if<CollectiveShape>(&op.shape))
      (collective->kind == Collective::all_reduce ? reduced_bytes : gathered_bytes) += collective->bytes * times;
  }
}

Totals totals(const Transformer& t) {
  Totals sum;
  sum.add(t.embedding);
  sum.add(t.layer, t.config.layers);
  sum.add(t.head);
  return sum;
}

}  // namespace orrery::models
