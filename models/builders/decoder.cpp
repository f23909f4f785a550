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
// Left out: tensor parallelism (passes add it), sliding windows, capacity limits of experts, the bias that evens a
// router's choices out.
#include <filesystem>

#include "models/builders/net.hpp"
#include "models/transformer/hf_config.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::models {
namespace {

using hw::OpClass;

enum class Logits : std::uint8_t { last, all };
constexpr auto enum_names(Logits) {
  using enum Logits;
  return sim::names<Logits>({{"last", last}, {"all", all}});
}

/// How products of experts are run: all in one kernel, or one product an expert.
enum class ExpertProducts : std::uint8_t { grouped, per_expert };
constexpr auto enum_names(ExpertProducts) {
  using enum ExpertProducts;
  return sim::names<ExpertProducts>({{"grouped", grouped}, {"per_expert", per_expert}});
}

struct DecoderParams {
  std::string config;
  std::int64_t layers = 16, hidden = 2048, heads = 32, kv_heads = 8, head_dim = 64, intermediate = 8192;
  std::int64_t vocab = 128256;
  bool tied = true, qkv_bias = false, out_bias = false, mlp_bias = false, qk_norm = false;
  std::int64_t experts = 0, experts_per_token = 2, expert_intermediate = 0, shared_intermediate = 0;
  std::int64_t dense_layers = 0, further_tokens = 0;
  std::int64_t q_rank = 0, kv_rank = 0, nope_dim = 128, rope_dim = 64, value_dim = 128;
  ExpertProducts expert_products = ExpertProducts::grouped;
  std::optional<FloatType> dtype;
  ElementType type = ElementType::bf16;  ///< where dtype says nothing; no field: the config's
  AttentionForm attention = AttentionForm::sdpa;
  PassForm passes = PassForm::library;
  bool merged = false, cache = false, loss = false, wide_loss = false, eager_loss = false, sample = false;
  bool value_head = false;
  Logits logits = Logits::last;
  double dropout = 0;

  static constexpr auto fields() {
    using D = DecoderParams;
    using sim::Unit;
    constexpr sim::Range kSize = sim::between(1, 1 << 24);
    constexpr sim::Range kOptional = sim::between(0, 1 << 24);
    return sim::FieldTable{
        sim::field("config", &D::config, Unit::path, sim::any_value(),
                   "Model of the catalog (catalog:NAME) or a config.json, whose sizes replace those below."),
        sim::field("layers", &D::layers, Unit::layers, kSize, "Number of layers."),
        sim::field("hidden", &D::hidden, Unit::count, kSize, "Hidden size: width of a token."),
        sim::field("heads", &D::heads, Unit::count, kSize, "Number of query heads."),
        sim::field("kv_heads", &D::kv_heads, Unit::count, kSize,
                   "Number of heads of keys and values, a divisor of heads."),
        sim::field("head_dim", &D::head_dim, Unit::count, kSize, "Width of an attention head."),
        sim::field("intermediate", &D::intermediate, Unit::count, kSize, "Width of the feed-forward network."),
        sim::field("vocab", &D::vocab, Unit::count, kSize, "Size of the vocabulary, in tokens."),
        sim::field("tied", &D::tied, "Whether the output head reads the embedding table."),
        sim::field("qkv_bias", &D::qkv_bias, "Whether the projections of q, k and v have biases."),
        sim::field("out_bias", &D::out_bias, "Whether the output projection of attention has a bias."),
        sim::field("mlp_bias", &D::mlp_bias, "Whether the feed-forward network has biases."),
        sim::field("qk_norm", &D::qk_norm, "Whether each head of q and k has an RMS norm."),
        sim::field("experts", &D::experts, Unit::count, kOptional,
                   "Number of experts per layer; 0: a dense feed-forward network."),
        sim::field("experts_per_token", &D::experts_per_token, Unit::count, kSize,
                   "Number of experts that each token goes to."),
        sim::field("expert_intermediate", &D::expert_intermediate, Unit::count, kOptional,
                   "Width of an expert; 0: that of the feed-forward network."),
        sim::field("shared_intermediate", &D::shared_intermediate, Unit::count, kOptional,
                   "Width of a shared feed-forward network that every token passes besides its experts; 0: none."),
        sim::field("dense_layers", &D::dense_layers, Unit::layers, kOptional,
                   "Number of first layers with a dense feed-forward network, where the others have experts."),
        sim::field("further_tokens", &D::further_tokens, Unit::count, sim::between(0, 16),
                   "Number of modules that predict the tokens after the next one, each with its own loss; needs loss."),
        sim::field(
            "kv_rank", &D::kv_rank, Unit::count, kOptional,
            "Width of the latent that keys and values are projected from; 0: they are projected from the token."),
        sim::field(
            "q_rank", &D::q_rank, Unit::count, kOptional,
            "With kv_rank: width of the latent that queries are projected from; 0: they are projected from the token."),
        sim::field("nope_dim", &D::nope_dim, Unit::count, kSize,
                   "With kv_rank: width of the part of a head's key without positions."),
        sim::field("rope_dim", &D::rope_dim, Unit::count, kSize,
                   "With kv_rank: width of the part of a head's key with rotary positions."),
        sim::field("value_dim", &D::value_dim, Unit::count, kSize, "With kv_rank: width of a head's value."),
        sim::field("expert_products", &D::expert_products,
                   "How experts' products run: as one kernel for all (vLLM, PyTorch), or as one product per expert "
                   "(Transformer Engine)."),
        sim::field("dtype", &D::dtype,
                   "Type of weights and activations; absent: that of the config, or bf16 without one."),
        sim::field("attention", &D::attention,
                   "How attention runs: as one kernel (sdpa), or as separate products and passes (eager)."),
        sim::field("passes", &D::passes,
                   "How norms and rotary embeddings run: as one kernel, of a library or compiled, or as elementary "
                   "passes (eager)."),
        sim::field("merged", &D::merged,
                   "Whether q, k and v are merged into one product, and gate and up into another."),
        sim::field("cache", &D::cache, "Whether keys and values are written to a KV cache of past and new tokens."),
        sim::field("logits", &D::logits, "Positions whose logits are computed: the last one, or all."),
        sim::field("value_head", &D::value_head,
                   "Whether the head gives one number per token instead of logits, as in critics and reward models. "
                   "The loss is then the mean squared error."),
        sim::field("sample", &D::sample, "Whether the graph ends in sampling the next token."),
        sim::field("loss", &D::loss,
                   "Whether the graph ends in the cross entropy with labels, over the logits of all positions."),
        sim::field("wide_loss", &D::wide_loss, "Whether logits are cast to fp32 before the cross entropy."),
        sim::field("eager_loss", &D::eager_loss,
                   "Whether the cross entropy runs in fp32 with kernels that each write their own logits, as in eager "
                   "PyTorch."),
        sim::field("dropout", &D::dropout, Unit::ratio, sim::between(0, 0.99),
                   "Dropout probability of attention and residuals."),
    };
  }
};

class Decoder final : public GraphBuilder {
 public:
  Decoder(DecoderParams params, std::filesystem::path catalog) : p_(std::move(params)), catalog_(std::move(catalog)) {}
  OpGraph build() const override;

 private:
  DecoderParams p_;
  std::filesystem::path catalog_;
};

/// What of a config this builder does not write down, or nothing.
const char* not_written(const ModelConfig& c) {
  if (c.linear.interval > 0) return "linear attention";
  if (c.layer_norm || !c.gated || c.learned_positions > 0 || c.parallel_block) return "layers unlike Llama's";
  if (c.sliding_window > 0 || c.attention_sinks) return "windows and sinks of attention";
  const ExpertConfig& e = c.experts;
  if (e.count > 0 && e.step != 1) return "layers with and without experts in turns";
  if (e.expert_bias) return "biases of experts";
  return nullptr;
}

/// Puts the sizes of the named config in.
void resolve(DecoderParams& p, const std::filesystem::path& catalog) {
  if (p.config.empty()) return;
  const ModelConfig config = load_model(p.config, catalog, builder_origin("decoder", "config"));
  if (const char* what = not_written(config))
    sim::throw_fault(builder_origin("decoder", "config"),
                     std::string("expected a model of this builder, got one with ") + what,
                     "the serving model takes it, operator graphs do not");
  p.experts = config.experts.count;
  p.shared_intermediate = config.experts.shared_intermediate_size;
  if (config.experts.count > 0) p.experts_per_token = config.experts.per_token;
  p.expert_intermediate = config.experts.intermediate_size;
  p.dense_layers = config.experts.count > 0 ? config.experts.dense_layers : 0;
  p.kv_rank = config.latent.kv_rank;
  if (p.kv_rank > 0) {
    p.q_rank = config.latent.q_rank;
    p.nope_dim = config.latent.nope_dim;
    p.rope_dim = config.latent.rope_dim;
    p.value_dim = config.latent.value_dim;
  }
  p.layers = config.layers;
  p.hidden = config.hidden_size;
  p.heads = config.heads;
  p.kv_heads = config.kv_heads;
  p.head_dim = config.head_dim;
  p.intermediate = config.intermediate_size;
  p.vocab = config.vocab_size;
  p.tied = config.tie_word_embeddings;
  p.qkv_bias = config.qkv_bias;
  p.out_bias = config.out_bias;
  p.mlp_bias = config.mlp_bias;
  p.qk_norm = config.qk_norm;
  if (config.dtype) p.type = element_type(*config.dtype);
}

void check(const DecoderParams& p) {
  sim::Faults faults;
  if (p.heads % p.kv_heads != 0)
    faults.add(builder_origin("decoder", "kv_heads"),
               "expected a divisor of " + std::to_string(p.heads) + " heads, got " + std::to_string(p.kv_heads));
  if (p.experts > 0 && p.experts_per_token > p.experts)
    faults.add(
        builder_origin("decoder", "experts_per_token"),
        "expected at most the " + std::to_string(p.experts) + " experts, got " + std::to_string(p.experts_per_token));
  if (p.loss && p.cache)
    faults.add(builder_origin("decoder", "loss"), "expected no loss beside a cache of keys and values");
  if (p.value_head && (p.sample || p.further_tokens > 0))
    faults.add(builder_origin("decoder", "value_head"), "expected none beside tokens that are chosen or predicted");
  if (p.further_tokens > 0 && !p.loss)
    faults.add(builder_origin("decoder", "further_tokens"), "expected none without a loss, which they add to");
  if (p.kv_rank > 0 && p.cache)
    faults.add(
        builder_origin("decoder", "cache"),
        "expected no cache beside attention over a latent: whether it holds latents or keys is not written down");
  if (p.kv_rank > 0 && p.qk_norm)
    faults.add(builder_origin("decoder", "qk_norm"), "expected none beside attention over a latent");
  if (p.loss && p.sample) faults.add(builder_origin("decoder", "sample"), "expected no choice of tokens beside a loss");
  faults.throw_if_any();
}

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
    for (std::int64_t layer = 0; layer < p_.layers; ++layer) x = block(x, layer_scope(layer), layer >= p_.dense_layers);
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
    const TensorId out = block(joined, scope, p_.dense_layers < p_.layers);
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

  TensorId attention(TensorId x) {
    auto [q, k, v] = projections(x);
    k = cached(k, "cache_k");
    v = cached(v, "cache_v");
    AttentionSpec spec{.form = p_.attention, .causal = true, .dropout = p_.dropout};
    spec.wide_softmax = p_.passes == PassForm::eager;
    if (p_.attention == AttentionForm::eager && !mask_)
      mask_ = net_.graph().input("mask", {net_.size(q, 2), keys_}, net_.type());
    if (mask_) spec.mask = &*mask_;
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
    const TensorId scores = net_.linear(x, p_.experts, false, OpClass::router, "router");
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
      return net_.emit(OpKind::grouped_matmul, {a, weight}, {rows * k, out}, net_.type(), op_class,
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

  TensorId block(TensorId x, const std::string& scope, bool with_experts) {
    net_.scope(scope + ".attention");
    const TensorId attended = attention(rms_norm(x, "norm"));
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
  std::vector<TensorId> rotation_;  ///< one table, or cosines and sines
  std::optional<TensorId> mask_;
};

OpGraph Decoder::build() const {
  DecoderParams resolved = p_;
  resolve(resolved, catalog_);
  check(resolved);
  return DecoderWriter(resolved).write();
}

}  // namespace

void add_decoder(BuilderRegistry& registry, const std::filesystem::path& catalog) {
  registry.add<DecoderParams>("decoder", "Llama-like decoder, dense or with experts, from sizes or a config.json.",
                              [catalog](const DecoderParams& params) -> std::unique_ptr<GraphBuilder> {
                                return std::make_unique<Decoder>(params, catalog);
                              });
}

}  // namespace orrery::models
