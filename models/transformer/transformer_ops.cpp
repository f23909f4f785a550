#include "models/transformer/transformer_ops.hpp"

#include <algorithm>
#include <utility>

namespace orrery::models {
namespace {

// FLOPs an element of the passes over memory, by convention: square, add, scale, weight (layer norm: 7, see
// hw/base/kernel_builders.hpp); per pair of a head 4 products and 2 sums; add; negate, exponential, add, divide, and
// the product with up (ReLU, GELU: one, in the product's shadow); one comparison a logit (greedy).
constexpr std::int64_t kNormFlops = 4, kLayerNormFlops = 7, kRopeFlops = 3, kResidualFlops = 1, kActivationFlops = 5,
                       kPlainActivationFlops = 1, kSamplingFlops = 1;
constexpr std::int64_t kTokenIdBytes = 4;
constexpr std::int64_t kLogitBytes = 4;   // of a draw's passes
constexpr std::int64_t kScoreFlops = 5;   // softmax of a router's scores; and a comparison for every choice
constexpr std::int64_t kChoiceBytes = 8;  // weight and index of an expert
constexpr std::int64_t kSortBytes = 4;    // index of a sorted row

/// Bytes of a pass, by what they are.
struct Pass {
  std::int64_t weights = 0;  ///< parameters held and read
  SymExpr reads, writes, kv_writes;
};

/// Whether weights of this format are multiplied with activations of 8 bits or fewer, which is how tokens travel then.
bool travels_in_bytes(hw::WeightFormat format) {
  const std::int64_t bits = hw::bits_64ths(format);
  return bits > 0 && bits <= 64 * 8 && !hw::is_weight_only(format);
}

constexpr std::int64_t kScaleBytes = 4;
constexpr std::int64_t kChunk = 64;         // tokens of a chunk of linear attention
constexpr std::int64_t kStateBytes = 4;     // of an element of its state
constexpr std::int64_t kQuantiseFlops = 4;  // magnitude, comparison, product, rounding; and a division for each scale
constexpr std::int64_t kBlock8 = 128, kBlock4 = 16;

/// Makes the operators of one rank.
class Builder {
 public:
  explicit Builder(Transformer& t) : t_(t), c_(t.config), element_(hw::bytes_of(t.dtype)) {}

  void build() {
    t_.embedding = embedding();
    for (std::int64_t layer = 0; layer < c_.layers; ++layer) add_layer(layer);
    t_.head = head();
    if (c_.mtp_layers > 0) t_.mtp = further_token();
  }

 private:
  void add_layer(std::int64_t index) {
    const bool experts = c_.has_experts(index);
    const bool linear = c_.has_linear(index);
    const std::int64_t window = c_.has_window(index) ? c_.sliding_window : 0;
    for (std::size_t i = 0; i < t_.kinds.size(); ++i) {
      if (t_.kinds[i].experts != experts || t_.kinds[i].window != window || t_.kinds[i].linear != linear) continue;
      ++t_.kinds[i].count;
      t_.kind_of.push_back(static_cast<std::int32_t>(i));
      return;
    }
    t_.kind_of.push_back(static_cast<std::int32_t>(t_.kinds.size()));
    t_.kinds.push_back(
        {.experts = experts, .linear = linear, .window = window, .count = 1, .ops = layer(experts, linear, window)});
  }

  /// Bytes of `width` elements a row of `rows`.
  SymExpr bytes(Dim rows, std::int64_t width) const { return size_of(rows) * (width * element_); }

  Op gemm(std::string name, hw::OpClass op, Dim rows, GemmShape s, std::int64_t biases) const {
    Op out{.name = std::move(name), .op = op, .rows = rows, .shape = s};
    const std::int64_t weights = s.n * s.k * s.batch;
    out.parameters = weights + biases;
    out.flops = size_of(rows) * (2 * weights);
    out.weight_bytes = hw::weight_bytes(s.weights, t_.dtype, weights);
    out.parameter_bytes = hw::weight_bytes(s.weights, t_.dtype, weights) + biases * element_;
    out.activation_bytes = bytes(rows, (s.n + s.k) * s.batch);
    return out;
  }
  Op gemm(hw::OpClass op, Dim rows, std::int64_t n, std::int64_t k, std::int64_t biases,
          hw::WeightFormat weights) const {
    return gemm(std::string(hw::to_string(op)), op, rows, {.n = n, .k = k, .weights = weights}, biases);
  }

  /// Products of the experts that have rows; the rank holds them all.
  Op expert_gemm(hw::OpClass op, std::int64_t n, std::int64_t k) const {
    const hw::WeightFormat format = t_.formats.experts;
    Op out{.name = std::string(hw::to_string(op)), .op = op, .rows = Dim::expert_rows};
    out.shape = ExpertShape{n, k, format};
    const std::int64_t biases = c_.experts.expert_bias ? n : 0, bytes_each = hw::weight_bytes(format, t_.dtype, n * k);
    out.parameters = t_.experts * (n * k + biases);
    out.parameter_bytes = t_.experts * (bytes_each + biases * element_);
    out.flops = size_of(Dim::expert_rows) * (2 * n * k);
    out.weight_bytes = size_of(Dim::experts) * bytes_each;
    out.activation_bytes = bytes(Dim::expert_rows, n + k);
    return out;
  }

  Op pass(std::string name, hw::OpClass op, Dim rows, std::int64_t flops_per_row, const Pass& p,
          hw::Pass kernel = hw::Pass::by_class) const {
    Op out{.name = std::move(name), .op = op, .rows = rows};
    out.parameters = p.weights;
    out.parameter_bytes = p.weights * element_;
    out.flops = size_of(rows) * flops_per_row;
    out.weight_bytes = p.weights * element_;
    out.activation_bytes = p.reads + p.writes;
    out.kv_bytes = p.kv_writes;
    out.shape = StreamShape{out.weight_bytes + p.reads, p.writes + p.kv_writes, kernel};
    return out;
  }

  /// Norm of rows of `width` elements, in groups that share `weights` parameters (and as many biases: layer norm).
  Op norm(std::string name, Dim rows, std::int64_t width, std::int64_t weights) const {
    const std::int64_t flops = c_.layer_norm ? kLayerNormFlops : kNormFlops;
    return pass(
        std::move(name), hw::OpClass::norm, rows, flops * width,
        {.weights = c_.layer_norm ? 2 * weights : weights, .reads = bytes(rows, width), .writes = bytes(rows, width)});
  }

  std::int64_t cache_element() const { return hw::bytes_of(t_.formats.cache.value_or(t_.dtype)); }

  /// Attention of `queries` over `keys` cached tokens in `pairs`; `window` as AttentionShape has it.
  Op attention(hw::OpClass op, Dim queries, Dim pairs, Dim keys, std::int64_t window) const {
    const std::int64_t q_width = t_.heads * c_.head_dim;
    const std::int64_t cached = cache_element();
    Op out{.name = std::string(hw::to_string(op)), .op = op, .rows = queries};
    out.shape = AttentionShape{.heads = t_.heads,
                               .kv_heads = t_.kv_heads,
                               .head_dim = c_.head_dim,
                               .window = window,
                               .cache_element = cached == element_ ? 0 : cached};
    const bool decode = op == hw::OpClass::attention_decode;
    SymExpr seen = size_of(pairs), read = size_of(keys);
    if (window > 0) seen = min(seen, size_of(queries) * window);
    if (window > 0 && decode) read = seen;
    out.flops = seen * (4 * q_width);
    out.activation_bytes = bytes(queries, 2 * q_width);
    out.kv_bytes = read * (2 * t_.kv_heads * c_.head_dim * cached);
    return out;
  }

  /// Elements that share a scale in the pass before a product with such weights; 0: there is no pass.
  std::int64_t scaled_block(hw::WeightFormat weights) const {
    if (weights == hw::WeightFormat::nvfp4) return kBlock4;
    return weights == hw::WeightFormat::fp8 && c_.weights == hw::WeightFormat::fp8 ? kBlock8 : 0;
  }

  /// Adds what finds the scales of a product's activations, `width` elements for each of the product's rows.
  void add_scales(std::vector<Op>& ops, const Op& product, std::int64_t width, hw::WeightFormat weights) const {
    using hw::OpClass;
    const Dim rows = product.rows;
    const SymExpr whole = bytes(rows, width), quantised = size_of(rows) * width;
    if (t_.formats.activations == ActivationScales::block) {
      const std::int64_t block = scaled_block(weights);
      if (block == 0) return;
      const std::int64_t scales = (width + block - 1) / block;
      ops.push_back(pass(product.name + "_scales", OpClass::quantise, rows, kQuantiseFlops * width + scales,
                         {.reads = whole, .writes = quantised + size_of(rows) * (scales * kScaleBytes)}));
    } else if (t_.formats.activations == ActivationScales::tensor &&
               (weights == hw::WeightFormat::fp8 || weights == hw::WeightFormat::int8)) {
      ops.push_back(pass(product.name + "_zero", OpClass::quantise, rows, 0, {.writes = SymExpr(kScaleBytes)}));
      ops.push_back(pass(product.name + "_largest", OpClass::quantise, rows, 2 * width,
                         {.reads = whole, .writes = SymExpr(kScaleBytes)}));
      ops.push_back(
          pass(product.name + "_convert", OpClass::quantise, rows, 2 * width, {.reads = whole, .writes = quantised}));
    }
  }

  /// The operators with what their products' activations need before them.
  std::vector<Op> with_scales(std::vector<Op> ops) const {
    if (t_.formats.activations == ActivationScales::fused) return ops;
    std::vector<Op> out;
    for (Op& op : ops) {
      if (const auto* gemm = std::get_if<GemmShape>(&op.shape))
        add_scales(out, op, gemm->k * gemm->batch, gemm->weights);
      if (const auto* grouped = std::get_if<ExpertShape>(&op.shape)) add_scales(out, op, grouped->k, grouped->weights);
      out.push_back(std::move(op));
    }
    return out;
  }

  Op collective(std::string name, Collective kind, SymExpr size, std::int64_t ranks) const {
    return {.name = std::move(name),
            .op = hw::OpClass::all_reduce,
            .rows = Dim::tokens,
            .shape = CollectiveShape{kind, std::move(size), ranks}};
  }

  /// The all-reduce after a row-parallel operator, if there is anybody to reduce with.
  void reduce(std::vector<Op>& ops, std::string name) const {
    if (t_.tp > 1)
      ops.push_back(collective(std::move(name), Collective::all_reduce, bytes(Dim::tokens, c_.hidden_size), t_.tp));
  }

  Op residual(std::string name, std::int64_t added = 1) const {
    return pass(
        std::move(name), hw::OpClass::residual, Dim::tokens, added * kResidualFlops * c_.hidden_size,
        {.reads = bytes(Dim::tokens, (1 + added) * c_.hidden_size), .writes = bytes(Dim::tokens, c_.hidden_size)});
  }

  /// Queries, keys and values, the cache, attention and the projection back.
  void add_attention(std::vector<Op>& ops, std::int64_t window) const {
    using hw::OpClass;
    const std::int64_t h = c_.hidden_size;
    const std::int64_t q = t_.heads * c_.head_dim;
    const std::int64_t kv = t_.kv_heads * c_.head_dim;
    const hw::WeightFormat format = t_.formats.attention;
    const std::int64_t gate = c_.attention_gate ? q : 0;
    ops.push_back(
        gemm(OpClass::qkv_proj, Dim::tokens, q + gate + 2 * kv, h, c_.qkv_bias ? q + gate + 2 * kv : 0, format));
    if (c_.qk_norm) ops.push_back(norm("qk_norm", Dim::tokens, q + kv, 2 * c_.head_dim));
    // Reads the token's sines and cosines, head_dim elements, besides q and k.
    if (c_.learned_positions == 0)
      ops.push_back(pass("rope", OpClass::rope, Dim::tokens, kRopeFlops * (q + kv),
                         {.reads = bytes(Dim::tokens, q + kv + c_.head_dim), .writes = bytes(Dim::tokens, q + kv)}));
    ops.push_back(cache_write(2 * kv));
    ops.push_back(attention(OpClass::attention_prefill, Dim::query_tokens, Dim::pairs, Dim::kv_tokens, window));
    ops.push_back(attention(OpClass::attention_decode, Dim::sequences, Dim::context, Dim::context, window));
    if (gate > 0)
      ops.push_back(pass("attention_gate", OpClass::activation, Dim::tokens, kActivationFlops * q,
                         {.reads = bytes(Dim::tokens, 2 * q), .writes = bytes(Dim::tokens, q)}));
    if (c_.attention_sinks) ops.back().parameters = t_.heads, ops.back().parameter_bytes = t_.heads * element_;
    ops.push_back(gemm(OpClass::out_proj, Dim::tokens, h, q, c_.out_bias ? h : 0, format));
  }

  Op cache_write(std::int64_t width) const {
    return pass("kv_write", hw::OpClass::kv_write, Dim::tokens, 0,
                {.reads = bytes(Dim::tokens, width), .kv_writes = size_of(Dim::tokens) * (width * cache_element())});
  }

  /// A product of each value head with what the prompt itself makes: nothing of it is held.
  Op chunk_product(std::string name, std::int64_t n, std::int64_t k, std::int64_t heads) const {
    Op out =
        gemm(std::move(name), hw::OpClass::attention_prefill, Dim::query_tokens, {.n = n, .k = k, .batch = heads}, 0);
    out.parameters = out.parameter_bytes = 0;
    return out;
  }

  /// A recurrence over a state in place of attention.
  void add_linear_attention(std::vector<Op>& ops) const {
    using hw::OpClass;
    const LinearConfig& l = c_.linear;
    const std::int64_t h = c_.hidden_size, heads = l.value_heads / t_.tp, values = heads * l.value_dim;
    const std::int64_t channels = l.channels() / t_.tp, state = heads * l.key_dim * l.value_dim;
    const hw::WeightFormat format = t_.formats.attention;
    ops.push_back(
        gemm("linear_proj", OpClass::qkv_proj, Dim::tokens, {.n = channels + values, .k = h, .weights = format}, 0));
    ops.push_back(gemm("linear_gates", OpClass::qkv_proj, Dim::tokens, {.n = 2 * heads, .k = h}, 2 * heads));
    ops.push_back(pass(
        "linear_conv", OpClass::conv, Dim::tokens, 2 * l.conv * channels,
        {.weights = l.conv * channels, .reads = bytes(Dim::tokens, channels), .writes = bytes(Dim::tokens, channels)}));
    ops.push_back(chunk_product("delta_keys", 2 * kChunk, l.key_dim, heads));
    ops.push_back(
        pass("delta_solve", OpClass::attention_prefill, Dim::query_tokens, kChunk * kChunk * heads,
             {.reads = bytes(Dim::query_tokens, kChunk * heads), .writes = bytes(Dim::query_tokens, kChunk * heads)}));
    ops.push_back(chunk_product("delta_mix", l.key_dim + l.value_dim, kChunk, heads));
    ops.push_back(chunk_product("delta_states", l.value_dim, 2 * l.key_dim, heads));
    ops.push_back(chunk_product("delta_outputs", l.value_dim, l.key_dim + kChunk, heads));
    // The state of each chunk is written once and read once, in 16 bits.
    const SymExpr states = size_of(Dim::query_tokens) * (state * element_ / kChunk);
    ops.push_back(
        pass("delta_chunks", OpClass::attention_prefill, Dim::query_tokens, 0, {.reads = states, .writes = states}));
    const SymExpr kept = size_of(Dim::sequences) * (state * kStateBytes);
    ops.push_back(
        pass("delta_decode", OpClass::attention_decode, Dim::sequences, 7 * state, {.reads = kept, .kv_writes = kept}));
    ops.push_back(
        pass("gated_norm", OpClass::norm, Dim::tokens, (kNormFlops + kActivationFlops) * values,
             {.weights = l.value_dim, .reads = bytes(Dim::tokens, 2 * values), .writes = bytes(Dim::tokens, values)}));
    ops.push_back(gemm(OpClass::out_proj, Dim::tokens, h, values, 0, format));
  }

  /// The same over a latent. Projections into the latents are on every rank, those out of them by heads.
  void add_latent_attention(std::vector<Op>& ops) const {
    using hw::OpClass;
    const LatentConfig& l = c_.latent;
    const std::int64_t h = c_.hidden_size, heads = t_.heads, key = l.nope_dim + l.rope_dim;
    const std::int64_t latent = l.kv_rank + l.rope_dim;
    const hw::WeightFormat format = t_.formats.attention;
    const auto proj = [&](std::string name, std::int64_t n, std::int64_t k) {
      ops.push_back(gemm(std::move(name), OpClass::qkv_proj, Dim::tokens, {.n = n, .k = k, .weights = format}, 0));
    };
    if (l.q_rank > 0) {
      proj("qkv_a_proj", l.q_rank + latent, h);
      ops.push_back(norm("latent_norm", Dim::tokens, l.q_rank + l.kv_rank, l.q_rank + l.kv_rank));
      proj("q_b_proj", heads * key, l.q_rank);
    } else {
      proj("qkv_a_proj", heads * key + latent, h);
      ops.push_back(norm("latent_norm", Dim::tokens, l.kv_rank, l.kv_rank));
    }
    const std::int64_t turned = (heads + 1) * l.rope_dim;
    ops.push_back(pass("rope", OpClass::rope, Dim::tokens, kRopeFlops * turned,
                       {.reads = bytes(Dim::tokens, turned + l.rope_dim), .writes = bytes(Dim::tokens, turned)}));
    ops.push_back(cache_write(latent));
    ops.push_back(gemm("kv_b_proj", OpClass::qkv_proj, Dim::kv_tokens,
                       {.n = heads * (l.nope_dim + l.value_dim), .k = l.kv_rank, .weights = format}, 0));
    ops.push_back(latent_prefill());
    ops.push_back(folded("q_fold", l.kv_rank, l.nope_dim));
    ops.push_back(latent_decode());
    ops.push_back(folded("v_fold", l.value_dim, l.kv_rank));
    ops.push_back(gemm(OpClass::out_proj, Dim::tokens, h, heads * l.value_dim, 0, format));
  }

  /// A part of kv_b_proj, applied to queries or outputs of decodes, each head its own; its weights are held there.
  Op folded(std::string name, std::int64_t n, std::int64_t k) const {
    Op out = gemm(std::move(name), hw::OpClass::qkv_proj, Dim::sequences,
                  {.n = n, .k = k, .batch = t_.heads, .weights = t_.formats.attention}, 0);
    out.parameters = out.parameter_bytes = 0;
    return out;
  }

  Op latent_prefill() const {
    const LatentConfig& l = c_.latent;
    const std::int64_t key = l.nope_dim + l.rope_dim;
    Op out{.name = "attention_prefill", .op = hw::OpClass::attention_prefill, .rows = Dim::query_tokens};
    out.shape = AttentionShape{.heads = t_.heads, .kv_heads = t_.heads, .head_dim = key, .value_dim = l.value_dim};
    out.flops = size_of(Dim::pairs) * (2 * t_.heads * (key + l.value_dim));
    out.activation_bytes = bytes(Dim::query_tokens, t_.heads * (key + l.value_dim)) +
                           bytes(Dim::kv_tokens, t_.heads * (key + l.value_dim));
    return out;
  }

  Op latent_decode() const {
    const LatentConfig& l = c_.latent;
    const std::int64_t latent = l.kv_rank + l.rope_dim, cached = cache_element();
    Op out{.name = "attention_decode", .op = hw::OpClass::attention_decode, .rows = Dim::sequences};
    out.shape = AttentionShape{.heads = t_.heads,
                               .kv_heads = 1,
                               .head_dim = latent,
                               .value_dim = l.kv_rank,
                               .latent = true,
                               .cache_element = cached == element_ ? 0 : cached};
    out.flops = size_of(Dim::context) * (2 * t_.heads * (latent + l.kv_rank));
    out.activation_bytes = bytes(Dim::sequences, t_.heads * (latent + l.kv_rank));
    out.kv_bytes = size_of(Dim::context) * (latent * cached);
    return out;
  }

  /// A feed-forward of `inner` elements; `biases` of each of its products.
  void add_ffn(std::vector<Op>& ops, const std::string& prefix, std::int64_t inner, bool biases) const {
    using hw::OpClass;
    const std::int64_t h = c_.hidden_size, up = c_.gated ? 2 * inner : inner;
    const hw::WeightFormat format = t_.formats.ffn;
    ops.push_back(
        gemm(prefix + "ffn_up", OpClass::ffn_up, Dim::tokens, {.n = up, .k = h, .weights = format}, biases ? up : 0));
    ops.push_back(activation(prefix + "activation", Dim::tokens, inner));
    ops.push_back(gemm(prefix + "ffn_down", OpClass::ffn_down, Dim::tokens, {.n = h, .k = inner, .weights = format},
                       biases ? h : 0));
  }

  Op activation(std::string name, Dim rows, std::int64_t inner) const {
    return pass(std::move(name), hw::OpClass::activation, rows,
                (c_.gated ? kActivationFlops : kPlainActivationFlops) * inner,
                {.reads = bytes(rows, c_.gated ? 2 * inner : inner), .writes = bytes(rows, inner)});
  }

  /// Router, experts and their sum, shared experts, and the ways of tokens between ranks.
  void add_experts(std::vector<Op>& ops) const {
    using hw::OpClass;
    const ExpertConfig& e = c_.experts;
    const std::int64_t h = c_.hidden_size, inner = t_.expert_intermediate_size;
    ops.push_back(gemm("router", OpClass::router, Dim::tokens, {.n = e.count, .k = h},
                       e.router_bias || e.score_bias ? e.count : 0));
    ops.push_back(
        pass("expert_choice", OpClass::router, Dim::tokens, (kScoreFlops + e.per_token) * e.count,
             {.reads = bytes(Dim::tokens, e.count), .writes = size_of(Dim::tokens) * (e.per_token * kChoiceBytes)}));
    add_dispatch(ops);
    ops.push_back(pass("expert_sort", OpClass::gather, Dim::tokens, 0,
                       {.reads = size_of(Dim::tokens) * (e.per_token * kSortBytes),
                        .writes = size_of(Dim::tokens) * (e.per_token * kSortBytes)},
                       hw::Pass::expert_sort));
    ops.push_back(expert_gemm(OpClass::expert_up, c_.gated ? 2 * inner : inner, h));
    ops.push_back(activation("expert_activation", Dim::expert_rows, inner));
    ops.push_back(expert_gemm(OpClass::expert_down, h, inner));
    ops.push_back(pass("expert_sum", OpClass::scatter, Dim::expert_rows, 2 * h,
                       {.reads = bytes(Dim::expert_rows, h), .writes = bytes(Dim::tokens, h)}, hw::Pass::expert_sum));
    if (e.shared_intermediate_size > 0) add_ffn(ops, "shared_", e.shared_intermediate_size / t_.tp, false);
    if (c_.linear.interval > 0) {  // these models weigh the shared expert by a gate of one number
      ops.push_back(gemm("shared_gate", OpClass::router, Dim::tokens, {.n = 1, .k = h}, 0));
    }
    add_combine(ops);
  }

  /// Rows of a token that leave for other ranks: one for each choice, or for each group of experts if there are fewer.
  std::int64_t copies() const { return std::min(c_.experts.per_token, t_.split.expert_parallel); }

  SymExpr exchanged(std::int64_t element) const {
    const SymExpr all = size_of(Dim::tokens) * (copies() * c_.hidden_size * element);
    return t_.tp == 1 ? all : ceil_div(all, t_.tp);  // the ranks of a group share their tokens out
  }

  void add_dispatch(std::vector<Op>& ops) const {
    if (t_.split.attention_dp == 1) return;
    const std::int64_t element = travels_in_bytes(t_.formats.experts) ? 1 : element_;
    if (t_.split.expert_parallel > 1) {
      ops.push_back(collective("dispatch", Collective::all_to_all, exchanged(element), t_.ranks()));
    } else {
      ops.push_back(collective("dispatch", Collective::all_gather,
                               size_of(Dim::tokens) * (t_.split.attention_dp * c_.hidden_size * element), t_.ranks()));
    }
  }

  void add_combine(std::vector<Op>& ops) const {
    if (t_.split.attention_dp == 1) return reduce(ops, "ffn_all_reduce");
    if (t_.split.expert_parallel > 1) {
      ops.push_back(collective("combine", Collective::all_to_all, exchanged(element_), t_.ranks()));
      if (t_.tp > 1)
        ops.push_back(collective("ffn_all_gather", Collective::all_gather, bytes(Dim::tokens, c_.hidden_size), t_.tp));
    } else {
      ops.push_back(collective("combine", Collective::reduce_scatter,
                               bytes(Dim::tokens, t_.split.attention_dp * c_.hidden_size), t_.ranks()));
    }
  }

  std::vector<Op> layer(bool experts, bool linear, std::int64_t window) const {
    const std::int64_t h = c_.hidden_size;
    std::vector<Op> ops;
    ops.push_back(norm("attention_norm", Dim::tokens, h, h));
    if (linear) {
      add_linear_attention(ops);
    } else if (c_.latent.kv_rank > 0) {
      add_latent_attention(ops);
    } else {
      add_attention(ops, window);
    }
    if (!c_.parallel_block) {
      reduce(ops, "out_all_reduce");
      ops.push_back(residual("attention_residual"));
    }
    ops.push_back(norm("ffn_norm", Dim::tokens, h, h));
    if (experts) {
      add_experts(ops);
    } else {
      add_ffn(ops, "", t_.intermediate_size, c_.mlp_bias);
      reduce(ops, "ffn_all_reduce");
    }
    ops.push_back(residual("ffn_residual", c_.parallel_block ? 2 : 1));
    return with_scales(std::move(ops));
  }

  std::vector<Op> embedding() const {
    const std::int64_t h = c_.hidden_size;
    // The rank is taken to own every token's row: the most that a rank can read.
    Op gather{.name = "embedding", .op = hw::OpClass::embedding, .rows = Dim::tokens};
    gather.parameters = t_.vocab_rows * h;
    gather.parameter_bytes = gather.parameters * element_;
    gather.weight_bytes = bytes(Dim::tokens, h);
    gather.activation_bytes = bytes(Dim::tokens, h);
    gather.shape = StreamShape{gather.weight_bytes, gather.activation_bytes};
    std::vector<Op> ops{std::move(gather)};
    reduce(ops, "embedding_all_reduce");
    if (c_.learned_positions > 0) {
      Op positions = residual("positions");  // a row of the table is added
      positions.parameters = c_.learned_positions * h;
      positions.parameter_bytes = positions.parameters * element_;
      ops.push_back(std::move(positions));
    }
    return ops;
  }

  std::vector<Op> head() const {
    const std::int64_t h = c_.hidden_size;
    const std::int64_t vocab = t_.vocab_rows * t_.tp;
    std::vector<Op> ops;
    ops.push_back(norm("final_norm", Dim::logit_rows, h, h));
    ops.push_back(gemm(hw::OpClass::lm_head, Dim::logit_rows, t_.vocab_rows, h, 0, hw::WeightFormat::as_dtype));
    if (c_.tie_word_embeddings) ops.back().parameters = ops.back().parameter_bytes = 0;
    if (t_.tp > 1) {
      ops.push_back(collective("logits_all_gather", Collective::all_gather, bytes(Dim::logit_rows, vocab), t_.tp));
      ops.back().rows = Dim::logit_rows;
    }
    if (t_.sampler == Sampler::random) add_draw(ops);
    ops.push_back(
        pass("sampling", hw::OpClass::sampling, Dim::logit_rows, kSamplingFlops * c_.vocab_size,
             {.reads = bytes(Dim::logit_rows, c_.vocab_size), .writes = size_of(Dim::logit_rows) * kTokenIdBytes}));
    return ops;
  }

  /// The passes of a draw, of which the last one finds the largest quotient; every rank draws for itself.
  void add_draw(std::vector<Op>& ops) const {
    const SymExpr logits = size_of(Dim::logit_rows) * (c_.vocab_size * kLogitBytes);
    const auto add = [&](const char* name, std::int64_t flops, std::int64_t reads, std::int64_t writes) {
      ops.push_back(pass(name, hw::OpClass::sampling, Dim::logit_rows, flops * c_.vocab_size,
                         {.reads = logits * reads, .writes = writes > 0 ? logits * writes : SymExpr(kTokenIdBytes)}));
    };
    add("temperature", 1, 1, 1);
    add("probabilities", kScoreFlops, 2, 1);
    add("noise", 1, 0, 1);
    add("quotient", 1, 2, 1);
    add("draw", 1, 1, 0);
  }

  /// Norms of the last token's embedding and of the hidden state, and their projection to one (DeepSeek-V3, 2.2).
  std::vector<Op> further_token() const {
    const std::int64_t h = c_.hidden_size;
    std::vector<Op> ops;
    ops.push_back(norm("mtp_norms", Dim::tokens, 2 * h, 2 * h));
    ops.push_back(gemm("mtp_proj", hw::OpClass::qkv_proj, Dim::tokens,
                       {.n = h, .k = 2 * h, .weights = hw::WeightFormat::as_dtype}, 0));
    return ops;
  }

  Transformer& t_;
  const ModelConfig& c_;
  std::int64_t element_;
};

}  // namespace

void build_ops(Transformer& t) {
  Builder(t).build();
}

}  // namespace orrery::models
