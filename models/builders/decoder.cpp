// Decoder-only transformers of the Llama family: pre-norm blocks of grouped-query attention with rotary positions and a
// gated feed-forward; with experts in place of the feed-forward where `experts` is not 0 (Mixtral, Qwen-MoE).
//
// Sizes come from a model of the catalog (models/transformer/hf_config.hpp) or are given. Without `cache` the graph is
// a forward pass over [batch, tokens]; with it every layer writes its keys and values into a cache of `past` + `tokens`
// and attends over all of it, so the same graph is a prompt (past = 0), a chunk of one, or a decode step (tokens = 1).
// Ops are those of the Hugging Face modules: projections apart unless `merged`, norms and rotations as one kernel each
// (`passes: library`, `compiled`) or as the passes that the Python modules launch (`eager`: an RMS norm eight, a
// rotation five a tensor). Experts: a router, rows gathered by expert, grouped products, and a weighted sum of k rows.
// With `kv_rank` queries, keys and values are projected from latents (multi-head latent attention: DeepSeek-AI, 2024):
// down to the latent and up to all heads, the rotated part of keys once for all of them. `further_tokens`: modules that
// predict the tokens after the next (DeepSeek-V3, arXiv 2412.19437, 2.2), a block each with losses of their own.
// `window`: layers that attend to so many last tokens, in turns with layers that attend to all (`full_every`); `sinks`:
// a learned logit a head in the softmax (gpt-oss: OpenAI, arXiv 2508.10925).
// Left out: tensor parallelism (passes add it), capacity limits of experts, the bias that evens a router's choices out,
// the limits that gpt-oss sets to gate and up (part of the activation's kernel here).
#include <array>
#include <filesystem>

#include "models/builders/decoder_params.hpp"

namespace orrery::models {
namespace {

using hw::OpClass;

/// Writes one graph down.
class DecoderWriter {
 public:
  explicit DecoderWriter(const DecoderParams& p)
      : p_(p), net_(p.config.empty() ? "decoder" : p.config, p.dtype ? element_type(*p.dtype) : p.type) {}

  OpGraph write() {
    const SymExpr batch = SymExpr::dim("batch"), tokens = SymExpr::dim("tokens");
    keys_ = p_.cache ? tokens + SymExpr::dim("past") : tokens;
    OpGraph& graph = net_.graph();
    graph.facts.in_range(Symbol("batch"), {1, {}});
    graph.facts.in_range(Symbol("tokens"), {1, {}});
    const TensorId ids = graph.input("input_ids", {batch, tokens}, ElementType::int64);
    net_.scope("embed");
    const TensorId embedded = net_.embedding(ids, p_.vocab, p_.hidden, "tokens");
    TensorId x = embedded;
    positions(tokens);
    for (std::int64_t layer = 0; layer < p_.layers; ++layer)
      x = block(x, layer_scope(layer), layer >= p_.dense_layers, p_.window_of(layer));
    const TensorId before_head = x;
    net_.scope("head");
    if (p_.logits == Logits::last && !p_.loss) x = net_.slice(x, 1, tokens - 1, 1);
    x = rms_norm(x, "norm");
    if (p_.value_head) {
      x = net_.linear(x, 1, false, OpClass::router, "value");  // no rank has a part of it
      if (!p_.loss) return net_.finish({x});
      return net_.finish({net_.squared_error(x, graph.input("values", net_.shape(x), net_.type()))});
    }
    x = project(x);
    if (p_.sample) {
      Shape ids_shape = net_.shape(x);
      ids_shape.pop_back();
      x = net_.emit(OpKind::sampling, {x}, ids_shape, ElementType::int32, OpClass::sampling);
    }
    if (!p_.loss) return net_.finish({x});
    const TensorId labels = graph.input("labels", {batch, tokens}, ElementType::int64);
    TensorId loss = loss_of(x, labels);
    x = before_head;
    for (std::int64_t i = 0; i < p_.further_tokens; ++i) {
      x = further(x, i);
      const TensorId normed = rms_norm(x, "norm");
      net_.own("head");  // its weights are the head's
      loss = net_.add(loss, loss_of(project(normed), labels));
    }
    return net_.finish({loss});
  }

 private:
  TensorId loss_of(TensorId x, TensorId labels) {
    OpGraph& graph = net_.graph();
    if (p_.wide_loss || p_.eager_loss) x = net_.cast(x, ElementType::fp32);
    const TensorId loss = net_.cross_entropy(x, labels);
    // Logarithms of probabilities forward, the gradient of their choice backward: a tensor of logits beside in and out.
    OpNode& op = graph.annotate(*graph.producer(loss));
    if (p_.eager_loss)
      op.set("scratch", graph.tensor(x).bytes());
    else
      op.set("compiled", SymExpr(1));  // by a fuser, with the cast before it
    // PyTorch's gradient takes no memory over: the logits are autograd's until it is made.
    if (p_.wide_loss || p_.eager_loss) op.set("in_place", SymExpr(0));
    return loss;
  }

  /// What a module reads of the layers before it and of the tokens that are known by then, through a block of its own.
  /// Tokens moved on by one are the same sizes: the embedding is looked up again.
  TensorId further(TensorId x, std::int64_t module) {
    const std::string scope = "head.further." + std::to_string(module);
    net_.own("embed");
    const TensorId table = net_.parameter("tokens.weight", {p_.vocab, p_.hidden});
    net_.scope(scope);
    const TensorId ids =
        net_.graph().input(scope + ".input_ids", {net_.size(x, 0), net_.size(x, 1)}, ElementType::int64);
    const TensorId next = net_.emit(OpKind::embedding, {table, ids}, net_.shape(x), net_.type(), OpClass::embedding);
    const TensorId both = net_.concat({rms_norm(x, "hidden_norm"), rms_norm(next, "token_norm")}, -1);
    const TensorId joined = undivided(both, p_.hidden, OpClass::ffn_up, "join");
    const TensorId out = block(joined, scope, p_.dense_layers < p_.layers, p_.window_of(p_.layers - 1));
    net_.scope(scope);
    return out;
  }

  /// Width of what is rotated.
  std::int64_t rotated() const { return p_.kv_rank > 0 ? p_.rope_dim : p_.head_dim; }

  /// Sines and cosines of the new positions: an input, or what the eager module computes of them every time.
  void positions(const SymExpr& tokens) {
    OpGraph& graph = net_.graph();
    net_.scope("rotary");
    if (p_.passes != PassForm::eager) {
      rotation_.push_back(graph.input("rotation", {tokens, rotated()}, net_.type()));
      return;
    }
    const TensorId frequencies = net_.constant("inv_freq", {rotated() / 2, 1}, ElementType::fp32);
    const TensorId position = graph.input("positions", {1, tokens}, ElementType::fp32);
    const TensorId angles = net_.permute(net_.emit(OpKind::matmul, {frequencies, position}, OpClass::rope), {1, 0});
    const TensorId both = net_.concat({angles, angles}, 1);
    for (int i = 0; i < 2; ++i) {  // cosine and sine cost alike
      const TensorId wave = net_.emit(OpKind::sin, {both}, OpClass::rope);
      rotation_.push_back(net_.emit(OpKind::scale, {wave}, OpClass::rope));
    }
    for (TensorId& part : rotation_) part = net_.cast(part, net_.type());
  }

  /// Who wrote the kernel of a norm or rotation.
  Attributes one_kernel() const {
    if (p_.passes == PassForm::library) return {};
    return {{"pass", std::string("compiled")}};
  }

  TensorId rms_norm(TensorId x, const std::string& name) {
    const SymExpr width = net_.size(x, -1);
    const TensorId weight = net_.parameter(name + ".weight", {width});
    if (p_.passes != PassForm::eager) return net_.emit(OpKind::rms_norm, {x, weight}, OpClass::norm, one_kernel());
    const auto pass = [&](OpKind kind, TensorId a, Attributes attributes = {}) {
      return net_.emit(kind, {a}, OpClass::norm, std::move(attributes));
    };
    const ElementType type = net_.type();
    const TensorId wide = pass(OpKind::cast, x, {{"to", std::string("fp32")}});
    const TensorId square = pass(OpKind::pow, wide, {{"exponent", SymExpr(2)}});
    const TensorId mean = pass(OpKind::reduce_mean, square, {{"axes", std::vector<SymExpr>{-1}}, {"keep", SymExpr(1)}});
    const TensorId inverse = pass(OpKind::rsqrt, pass(OpKind::scale, mean, {{"shift", 1e-5}}));
    const TensorId scaled = net_.mul(wide, inverse, OpClass::norm);
    const TensorId narrow = pass(OpKind::cast, scaled, {{"to", std::string(to_string(type))}});
    return net_.mul(narrow, weight, OpClass::norm);
  }

  /// Rotary positions of [batch, heads, tokens, dim].
  TensorId rotate(TensorId x) {
    if (p_.passes != PassForm::eager)
      return net_.emit(OpKind::rope, {x, rotation_.front()}, OpClass::rope, one_kernel());
    const std::int64_t half = rotated() / 2;
    const TensorId straight = net_.mul(x, rotation_[0], OpClass::rope);
    const TensorId back = net_.emit(OpKind::neg, {net_.slice(x, -1, half, half)}, OpClass::rope);
    const TensorId crossed = net_.concat({back, net_.slice(x, -1, 0, half)}, -1);
    return net_.add(straight, net_.mul(crossed, rotation_[1], OpClass::rope), OpClass::rope);
  }

  /// A product whose weight ranks that share a layer all have whole.
  TensorId undivided(TensorId x, std::int64_t width, OpClass of, const char* name) {
    const TensorId out = net_.linear(x, width, false, of, name);
    net_.graph().annotate(*net_.graph().producer(out)).set("undivided", SymExpr(1));
    return out;
  }

  /// q, k and v by way of latents; every head has keys and values of its own, and the rotated part of keys is one.
  std::array<TensorId, 3> latent_projections(TensorId x) {
    const std::int64_t key = p_.nope_dim + p_.rope_dim;
    TensorId from = x;
    if (p_.q_rank > 0) from = rms_norm(undivided(x, p_.q_rank, OpClass::qkv_proj, "q_a_proj"), "q_a_norm");
    TensorId q = net_.split_heads(net_.linear(from, p_.heads * key, false, OpClass::qkv_proj, "q_b_proj"), p_.heads);
    q = net_.concat({net_.slice(q, -1, 0, p_.nope_dim), rotate(net_.slice(q, -1, p_.nope_dim, p_.rope_dim))}, -1);
    const TensorId down = undivided(x, p_.kv_rank + p_.rope_dim, OpClass::qkv_proj, "kv_a_proj");
    const TensorId latent = rms_norm(net_.slice(down, -1, 0, p_.kv_rank), "kv_a_norm");
    const TensorId both = net_.split_heads(
        net_.linear(latent, p_.heads * (p_.nope_dim + p_.value_dim), false, OpClass::qkv_proj, "kv_b_proj"), p_.heads);
    const TensorId turned = rotate(net_.split_heads(net_.slice(down, -1, p_.kv_rank, p_.rope_dim), 1));
    const TensorId nope = net_.slice(both, -1, 0, p_.nope_dim);
    Shape everywhere = net_.shape(nope);
    everywhere.back() = p_.rope_dim;
    const TensorId k = net_.concat({nope, net_.expand(turned, std::move(everywhere))}, -1);
    return {q, k, net_.slice(both, -1, p_.nope_dim, p_.value_dim)};
  }

  /// q, k and v, [batch, heads, tokens, dim] each.
  std::array<TensorId, 3> projections(TensorId x) {
    if (p_.kv_rank > 0) return latent_projections(x);
    const std::int64_t q = p_.heads * p_.head_dim, kv = p_.kv_heads * p_.head_dim;
    std::array<TensorId, 3> parts{};
    if (p_.merged) {
      const TensorId all = net_.linear(x, q + 2 * kv, p_.qkv_bias, OpClass::qkv_proj, "qkv_proj");
      parts = {net_.slice(all, -1, 0, q), net_.slice(all, -1, q, kv), net_.slice(all, -1, q + kv, kv)};
    } else {
      parts = {net_.linear(x, q, p_.qkv_bias, OpClass::qkv_proj, "q_proj"),
               net_.linear(x, kv, p_.qkv_bias, OpClass::qkv_proj, "k_proj"),
               net_.linear(x, kv, p_.qkv_bias, OpClass::qkv_proj, "v_proj")};
    }
    const std::array<std::int64_t, 3> heads{p_.heads, p_.kv_heads, p_.kv_heads};
    for (std::size_t i = 0; i < 3; ++i) parts[i] = net_.split_heads(parts[i], heads[i]);
    if (p_.qk_norm) {
      parts[0] = rms_norm(parts[0], "q_norm");
      parts[1] = rms_norm(parts[1], "k_norm");
    }
    parts[0] = rotate(parts[0]);
    parts[1] = rotate(parts[1]);
    return parts;
  }

  /// The cache with the new rows in it.
  TensorId cached(TensorId rows, const std::string& name) {
    if (!p_.cache) return rows;
    Shape shape = net_.shape(rows);
    shape[2] = keys_;
    const TensorId cache = net_.graph().input(net_.graph().scope() + "." + name, shape, net_.type());
    return net_.emit(OpKind::kv_write, {cache, rows}, shape, net_.type(), OpClass::kv_write);
  }

  TensorId attention(TensorId x, std::int64_t window) {
    auto [q, k, v] = projections(x);
    k = cached(k, "cache_k");
    v = cached(v, "cache_v");
    AttentionSpec spec{.form = p_.attention, .causal = true, .dropout = p_.dropout, .window = window};
    spec.wide_softmax = p_.passes == PassForm::eager;
    std::optional<TensorId>& mask = masks_[window > 0 ? 1 : 0];
    if (p_.attention == AttentionForm::eager && !mask)
      mask = net_.graph().input(window > 0 ? "window_mask" : "mask", {net_.size(q, 2), keys_}, net_.type());
    if (mask) spec.mask = &*mask;
    TensorId sinks{};
    if (p_.sinks) sinks = net_.parameter("sinks", {1, p_.heads, 1, 1});
    if (p_.sinks) spec.sinks = &sinks;
    return net_.linear(attend(net_, q, k, v, spec), p_.hidden, p_.out_bias, OpClass::out_proj, "o_proj");
  }

  TensorId feed_forward(TensorId x, std::int64_t inner) {
    TensorId gate{}, up{};
    if (p_.merged) {
      const TensorId both = net_.linear(x, 2 * inner, p_.mlp_bias, OpClass::ffn_up, "gate_up_proj");
      gate = net_.slice(both, -1, 0, inner);
      up = net_.slice(both, -1, inner, inner);
    } else {
      gate = net_.linear(x, inner, p_.mlp_bias, OpClass::ffn_up, "gate_proj");
    }
    gate = net_.emit(OpKind::silu, {gate}, OpClass::activation);
    if (!p_.merged) up = net_.linear(x, inner, p_.mlp_bias, OpClass::ffn_up, "up_proj");
    return net_.linear(net_.mul(gate, up), p_.hidden, p_.mlp_bias, OpClass::ffn_down, "down_proj");
  }

  TensorId experts(TensorId x) {
    const Shape outer = net_.shape(x);
    const SymExpr rows = outer[0] * outer[1];
    const std::int64_t k = p_.experts_per_token;
    const std::int64_t inner = p_.expert_intermediate > 0 ? p_.expert_intermediate : p_.intermediate;
    const TensorId scores = net_.linear(x, p_.experts, p_.router_bias, OpClass::router, "router");
    OpNode router;
    router.kind = OpKind::router;
    router.inputs = {scores};
    router.attributes = {{"k", SymExpr(k)}};
    router.op_class = OpClass::router;
    std::vector<Tensor> outputs(2);
    outputs[0] = {.shape = {outer[0], outer[1], k}, .type = ElementType::fp32};
    outputs[1] = {.shape = {outer[0], outer[1], k}, .type = ElementType::int32};
    OpGraph& graph = net_.graph();
    const std::vector<TensorId> routed = graph.op(graph.add(std::move(router), std::move(outputs))).outputs;
    const TensorId sent =
        net_.emit(OpKind::gather, {x, routed[1]}, {rows * k, p_.hidden}, net_.type(), OpClass::gather);
    const auto product = [&](TensorId a, std::int64_t out, OpClass op_class, const std::string& name) {
      const TensorId weight = net_.parameter(name, {p_.experts, net_.size(a, -1), out});
      Attributes attributes{{"active_groups", min(SymExpr(p_.experts), rows * k)}};
      if (p_.expert_products == ExpertProducts::per_expert)
        attributes.emplace_back("library", std::string("per_group"));
      std::vector<TensorId> inputs{a, weight};
      if (p_.expert_bias) {
        attributes.emplace_back("bias", SymExpr(1));
        inputs.push_back(net_.parameter(name + "_bias", {p_.experts, 1, out}));
      }
      return net_.emit(OpKind::grouped_matmul, std::move(inputs), {rows * k, out}, net_.type(), op_class,
                       std::move(attributes));
    };
    TensorId gate{}, up{};
    if (p_.merged) {
      const TensorId both = product(sent, 2 * inner, OpClass::expert_up, "experts.gate_up");
      gate = net_.slice(both, -1, 0, inner);
      up = net_.slice(both, -1, inner, inner);
    } else {
      gate = product(sent, inner, OpClass::expert_up, "experts.gate");
    }
    gate = net_.emit(OpKind::silu, {gate}, OpClass::activation);
    if (!p_.merged) up = product(sent, inner, OpClass::expert_up, "experts.up");
    const TensorId down = product(net_.mul(gate, up), p_.hidden, OpClass::expert_down, "experts.down");
    TensorId out = net_.emit(OpKind::combine, {down, routed[0], routed[1]}, outer, net_.type(), OpClass::scatter,
                             {{"k", SymExpr(k)}});
    if (p_.shared_intermediate > 0) out = net_.add(out, feed_forward(x, p_.shared_intermediate));
    return out;
  }

  TensorId block(TensorId x, const std::string& scope, bool with_experts, std::int64_t window) {
    net_.scope(scope + ".attention");
    const TensorId attended = attention(rms_norm(x, "norm"), window);
    x = net_.add(x, net_.dropout(attended, p_.dropout));
    net_.scope(scope + ".ffn");
    const TensorId normed = rms_norm(x, "norm");
    const TensorId fed = p_.experts > 0 && with_experts ? experts(normed) : feed_forward(normed, p_.intermediate);
    return net_.add(x, net_.dropout(fed, p_.dropout));
  }

  TensorId project(TensorId x) {
    if (!p_.tied) return net_.linear(x, p_.vocab, false, OpClass::lm_head, "lm_head");
    net_.own("embed");
    return net_.linear(x, net_.parameter("tokens.weight", {p_.vocab, p_.hidden}), nullptr, OpClass::lm_head);
  }

  const DecoderParams& p_;
  Net net_;
  SymExpr keys_;
  std::vector<TensorId> rotation_;                ///< one table, or cosines and sines
  std::array<std::optional<TensorId>, 2> masks_;  ///< eager: of layers without and with a window
};

class Decoder final : public GraphBuilder {
 public:
  Decoder(DecoderParams params, std::filesystem::path catalog) : p_(std::move(params)), catalog_(std::move(catalog)) {}
  OpGraph build() const override { return DecoderWriter(resolved(p_, catalog_)).write(); }

 private:
  DecoderParams p_;
  std::filesystem::path catalog_;
};

}  // namespace

void add_decoder(BuilderRegistry& registry, const std::filesystem::path& catalog) {
  registry.add<DecoderParams>("decoder", "Llama-like decoder, dense or with experts, from sizes or a config.json.",
                              [catalog](const DecoderParams& params) -> std::unique_ptr<GraphBuilder> {
                                return std::make_unique<Decoder>(params, catalog);
                              });
}

}  // namespace orrery::models
