// BERT and its relatives: post-norm encoders with learnt positions, biases everywhere and exact GELU (Devlin et al.,
// 2019), as the Hugging Face modules run them.
//
// Parameters make the relatives: RoBERTa (vocab 50265, 514 positions, 1 type), DistilBERT (6 layers, no types, no
// pooler), ALBERT (embedding 128, shared layers, vocab 30000), XLM-R. The head is nothing, the pooler of the first
// token, or the masked-language model's (dense, GELU, norm, and a product with the embedding table). Attention is one
// kernel or the chain of products and passes. Left out: padding masks in `sdpa` (batches are full).
#include "models/builders/net.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::models {
namespace {

using hw::OpClass;

enum class EncoderHead : std::uint8_t { none, pooler, mlm };
constexpr auto enum_names(EncoderHead) {
  using enum EncoderHead;
  return sim::names<EncoderHead>({{"none", none}, {"pooler", pooler}, {"mlm", mlm}});
}

struct BertParams {
  std::int64_t layers = 12, hidden = 768, heads = 12, intermediate = 3072, vocab = 30522, positions = 512, types = 2;
  std::int64_t embedding = 0;
  bool shared_layers = false;
  FloatType dtype = FloatType::fp16;
  AttentionForm attention = AttentionForm::sdpa;
  EncoderHead head = EncoderHead::pooler;
  bool loss = false;
  double dropout = 0;

  static constexpr auto fields() {
    using B = BertParams;
    using sim::Unit;
    constexpr sim::Range kSize = sim::between(1, 1 << 24);
    constexpr sim::Range kOptional = sim::between(0, 1 << 24);
    return sim::FieldTable{
        sim::field("layers", &B::layers, Unit::layers, kSize, "Number of layers."),
        sim::field("hidden", &B::hidden, Unit::count, kSize, "Hidden size: width of a token."),
        sim::field("heads", &B::heads, Unit::count, kSize, "Number of attention heads, a divisor of hidden."),
        sim::field("intermediate", &B::intermediate, Unit::count, kSize, "Width of the feed-forward network."),
        sim::field("vocab", &B::vocab, Unit::count, kSize, "Size of the vocabulary, in tokens."),
        sim::field("positions", &B::positions, Unit::count, kSize, "Number of learnt position embeddings."),
        sim::field("types", &B::types, Unit::count, kOptional, "Number of token types; 0: no type embeddings."),
        sim::field("embedding", &B::embedding, Unit::count, kOptional,
                   "Width of the embedding tables (ALBERT); 0: hidden."),
        sim::field("shared_layers", &B::shared_layers, "Whether all layers share one set of weights (ALBERT)."),
        sim::field("dtype", &B::dtype, "Type of weights and activations."),
        sim::field("attention", &B::attention,
                   "How attention runs: as one kernel (sdpa), or as separate products and passes (eager)."),
        sim::field("head", &B::head,
                   "What follows the layers: nothing, the pooler of the first token, or the masked-language-model head "
                   "(mlm)."),
        sim::field("loss", &B::loss, "Whether the graph ends in the cross entropy with labels; needs head mlm."),
        sim::field("dropout", &B::dropout, Unit::ratio, sim::between(0, 0.99), "Dropout probability, as in training."),
    };
  }
};

class BertWriter {
 public:
  explicit BertWriter(const BertParams& p) : p_(p), net_("bert", element_type(p.dtype)) {}

  OpGraph write() {
    OpGraph& graph = net_.graph();
    graph.facts.in_range(Symbol("batch"), {1, {}});
    graph.facts.in_range(Symbol("tokens"), {1, p_.positions});
    TensorId x = embeddings();
    if (p_.attention == AttentionForm::eager) mask_ = graph.input("mask", {batch_, 1, 1, tokens_}, net_.type());
    for (std::int64_t layer = 0; layer < p_.layers; ++layer) x = block(x, layer);
    if (p_.head == EncoderHead::pooler) x = pooler(x);
    if (p_.head == EncoderHead::mlm) x = mlm(x);
    if (!p_.loss) return net_.finish({x});
    return net_.finish({net_.cross_entropy(x, graph.input("labels", {batch_, tokens_}, ElementType::int64))});
  }

 private:
  std::int64_t table_width() const { return p_.embedding > 0 ? p_.embedding : p_.hidden; }

  TensorId embeddings() {
    OpGraph& graph = net_.graph();
    const TensorId ids = graph.input("input_ids", {batch_, tokens_}, ElementType::int64);
    net_.scope("embeddings");
    TensorId x = net_.embedding(ids, p_.vocab, table_width(), "words");
    if (p_.types > 0) {
      const TensorId types = graph.input("token_type_ids", {batch_, tokens_}, ElementType::int64);
      x = net_.add(x, net_.embedding(types, p_.types, table_width(), "types"));
    }
    const TensorId places = graph.input("position_ids", {1, tokens_}, ElementType::int64);
    x = net_.add(x, net_.embedding(places, p_.positions, table_width(), "positions"));
    x = net_.dropout(net_.layer_norm(x, "norm"), p_.dropout);
    return p_.embedding > 0 ? net_.linear(x, p_.hidden, true, OpClass::embedding, "mapping") : x;
  }

  TensorId block(TensorId x, std::int64_t layer) {
    const std::string owner = p_.shared_layers ? "layer.shared" : layer_scope(layer);
    net_.scope(layer_scope(layer) + ".attention");
    net_.own(owner + ".attention");
    const TensorId q = net_.split_heads(net_.linear(x, p_.hidden, true, OpClass::qkv_proj, "query"), p_.heads);
    const TensorId k = net_.split_heads(net_.linear(x, p_.hidden, true, OpClass::qkv_proj, "key"), p_.heads);
    const TensorId v = net_.split_heads(net_.linear(x, p_.hidden, true, OpClass::qkv_proj, "value"), p_.heads);
    AttentionSpec spec{.form = p_.attention, .dropout = p_.dropout};
    if (mask_) spec.mask = &*mask_;
    const TensorId attended = net_.linear(attend(net_, q, k, v, spec), p_.hidden, true, OpClass::out_proj, "output");
    x = net_.layer_norm(net_.add(net_.dropout(attended, p_.dropout), x), "norm");
    net_.scope(layer_scope(layer) + ".ffn");
    net_.own(owner + ".ffn");
    const TensorId up = net_.linear(x, p_.intermediate, true, OpClass::ffn_up, "intermediate");
    const TensorId active = net_.emit(OpKind::gelu, {up}, OpClass::activation);
    const TensorId down = net_.linear(active, p_.hidden, true, OpClass::ffn_down, "output");
    return net_.layer_norm(net_.add(net_.dropout(down, p_.dropout), x), "norm");
  }

  TensorId pooler(TensorId x) {
    net_.scope("pooler");
    const TensorId first = net_.reshape(net_.slice(x, 1, 0, 1), {batch_, p_.hidden});
    const TensorId dense = net_.linear(first, p_.hidden, true, OpClass::lm_head, "dense");
    return net_.emit(OpKind::tanh, {dense}, OpClass::activation);
  }

  TensorId mlm(TensorId x) {
    net_.scope("head");
    x = net_.linear(x, table_width(), true, OpClass::lm_head, "dense");
    x = net_.layer_norm(net_.emit(OpKind::gelu, {x}, OpClass::activation), "norm");
    const TensorId bias = net_.parameter("bias", {p_.vocab});
    net_.own("embeddings");
    return net_.linear(x, net_.parameter("words.weight", {p_.vocab, table_width()}), &bias, OpClass::lm_head);
  }

  const BertParams& p_;
  Net net_;
  SymExpr batch_ = SymExpr::dim("batch"), tokens_ = SymExpr::dim("tokens");
  std::optional<TensorId> mask_;
};

class Bert final : public GraphBuilder {
 public:
  explicit Bert(const BertParams& params) : p_(params) {}
  OpGraph build() const override {
    sim::Faults faults;
    if (p_.hidden % p_.heads != 0)
      faults.add(builder_origin("bert", "heads"),
                 "expected a divisor of the width " + std::to_string(p_.hidden) + ", got " + std::to_string(p_.heads));
    if (p_.loss && p_.head != EncoderHead::mlm)
      faults.add(builder_origin("bert", "loss"), "expected head \"mlm\" beside a loss");
    faults.throw_if_any();
    return BertWriter(p_).write();
  }

 private:
  BertParams p_;
};

}  // namespace

void add_bert(BuilderRegistry& registry) {
  registry.add<BertParams>("bert", "Post-norm encoder: BERT, RoBERTa, DistilBERT or ALBERT, by size.",
                           [](const BertParams& params) { return std::make_unique<Bert>(params); });
}

}  // namespace orrery::models
