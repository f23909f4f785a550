// GPT-2: a pre-norm decoder with learnt positions, biases, one product for q, k and v, and GELU by tanh (Radford et
// al., 2019), as the Hugging Face modules run it. The head reads the embedding table. With `passes: eager` GELU is the
// eight passes that the module launches. Left out: caches of keys and values (builder `decoder` has them).
#include "models/builders/net.hpp"

namespace orrery::models {
namespace {

using hw::OpClass;

struct Gpt2Params {
  std::int64_t layers = 12, hidden = 768, heads = 12, intermediate = 3072, vocab = 50257, positions = 1024;
  FloatType dtype = FloatType::fp16;
  AttentionForm attention = AttentionForm::sdpa;
  PassForm passes = PassForm::library;
  bool all_logits = false, loss = false, wide_softmax = false, wide_loss = false;
  double dropout = 0;

  static constexpr auto fields() {
    using G = Gpt2Params;
    using sim::Unit;
    constexpr sim::Range kSize = sim::between(1, 1 << 24);
    return sim::FieldTable{
        sim::field("layers", &G::layers, Unit::layers, kSize, "Number of layers."),
        sim::field("hidden", &G::hidden, Unit::count, kSize, "Hidden size: width of a token."),
        sim::field("heads", &G::heads, Unit::count, kSize, "Number of attention heads, a divisor of hidden."),
        sim::field("intermediate", &G::intermediate, Unit::count, kSize, "Width of the feed-forward network."),
        sim::field("vocab", &G::vocab, Unit::count, kSize, "Size of the vocabulary, in tokens."),
        sim::field("positions", &G::positions, Unit::count, kSize, "Number of learnt position embeddings."),
        sim::field("dtype", &G::dtype, "Type of weights and activations."),
        sim::field("attention", &G::attention,
                   "How attention runs: as one kernel (sdpa), or as separate products and passes (eager)."),
        sim::field("passes", &G::passes, "How GELU runs: as one kernel, or as eight passes (eager)."),
        sim::field("all_logits", &G::all_logits,
                   "Whether the logits of all positions are computed, instead of only the last one's."),
        sim::field("loss", &G::loss, "Whether the graph ends in the cross entropy with labels."),
        sim::field("wide_softmax", &G::wide_softmax,
                   "With eager attention: whether the softmax runs in fp32 and is cast back."),
        sim::field("wide_loss", &G::wide_loss, "Whether logits are cast to fp32 before the cross entropy."),
        sim::field("dropout", &G::dropout, Unit::ratio, sim::between(0, 0.99), "Dropout probability, as in training."),
    };
  }
};

class Gpt2Writer {
 public:
  explicit Gpt2Writer(const Gpt2Params& p) : p_(p), net_("gpt2", element_type(p.dtype)) {}

  OpGraph write() {
    OpGraph& graph = net_.graph();
    graph.facts.in_range(Symbol("batch"), {1, {}});
    graph.facts.in_range(Symbol("tokens"), {1, p_.positions});
    const TensorId ids = graph.input("input_ids", {batch_, tokens_}, ElementType::int64);
    const TensorId places = graph.input("position_ids", {1, tokens_}, ElementType::int64);
    net_.scope("embed");
    const TensorId words = net_.embedding(ids, p_.vocab, p_.hidden, "words");
    TensorId x = net_.add(words, net_.embedding(places, p_.positions, p_.hidden, "positions"));
    x = net_.dropout(x, p_.dropout);
    if (p_.attention == AttentionForm::eager) mask_ = graph.input("mask", {tokens_, tokens_}, net_.type());
    for (std::int64_t layer = 0; layer < p_.layers; ++layer) x = block(x, layer);
    net_.scope("head");
    x = net_.layer_norm(x, "norm");
    if (!p_.all_logits && !p_.loss) x = net_.slice(x, 1, tokens_ - 1, 1);
    net_.own("embed");
    x = net_.linear(x, net_.parameter("words.weight", {p_.vocab, p_.hidden}), nullptr, OpClass::lm_head);
    if (!p_.loss) return net_.finish({x});
    if (p_.wide_loss) x = net_.cast(x, ElementType::fp32);
    return net_.finish({net_.cross_entropy(x, graph.input("labels", {batch_, tokens_}, ElementType::int64))});
  }

 private:
  TensorId block(TensorId x, std::int64_t layer) {
    net_.scope(layer_scope(layer) + ".attention");
    const TensorId all = net_.linear(net_.layer_norm(x, "norm"), 3 * p_.hidden, true, OpClass::qkv_proj, "c_attn");
    std::array<TensorId, 3> parts{};
    for (std::size_t i = 0; i < 3; ++i)
      parts[i] = net_.split_heads(net_.slice(all, -1, static_cast<std::int64_t>(i) * p_.hidden, p_.hidden), p_.heads);
    AttentionSpec spec{.form = p_.attention, .causal = true, .dropout = p_.dropout};
    spec.wide_softmax = p_.wide_softmax;
    if (mask_) spec.mask = &*mask_;
    const TensorId attended = attend(net_, parts[0], parts[1], parts[2], spec);
    const TensorId out = net_.linear(attended, p_.hidden, true, OpClass::out_proj, "c_proj");
    x = net_.add(net_.dropout(out, p_.dropout), x);
    net_.scope(layer_scope(layer) + ".ffn");
    const TensorId up = net_.linear(net_.layer_norm(x, "norm"), p_.intermediate, true, OpClass::ffn_up, "c_fc");
    const TensorId down = net_.linear(tanh_gelu(net_, up, p_.passes), p_.hidden, true, OpClass::ffn_down, "c_proj");
    return net_.add(x, net_.dropout(down, p_.dropout));
  }

  const Gpt2Params& p_;
  Net net_;
  SymExpr batch_ = SymExpr::dim("batch"), tokens_ = SymExpr::dim("tokens");
  std::optional<TensorId> mask_;
};

class Gpt2 final : public GraphBuilder {
 public:
  explicit Gpt2(const Gpt2Params& params) : p_(params) {}
  OpGraph build() const override {
    if (p_.hidden % p_.heads != 0)
      sim::throw_fault(builder_origin("gpt2", "heads"), "expected a divisor of the width " + std::to_string(p_.hidden) +
                                                            ", got " + std::to_string(p_.heads));
    return Gpt2Writer(p_).write();
  }

 private:
  Gpt2Params p_;
};

}  // namespace

void add_gpt2(BuilderRegistry& registry) {
  registry.add<Gpt2Params>("gpt2", "Pre-norm decoder with learnt positions, biases and GELU: GPT-2, by size.",
                           [](const Gpt2Params& params) { return std::make_unique<Gpt2>(params); });
}

}  // namespace orrery::models
