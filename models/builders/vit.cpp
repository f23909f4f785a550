// Vision transformer (Dosovitskiy et al., 2021): patches by a convolution, a class token, learnt positions, and
// pre-norm encoder layers with biases, exact GELU and one product for q, k and v. Defaults are ViT-B/16.
#include "models/builders/images.hpp"

namespace orrery::models {
namespace {

using hw::OpClass;

struct VitParams : ImageParams {
  std::int64_t patch = 16, layers = 12, hidden = 768, heads = 12, intermediate = 3072;
  AttentionForm attention = AttentionForm::sdpa;

  static constexpr auto fields() {
    using V = VitParams;
    using sim::Unit;
    constexpr sim::Range kSize = sim::between(1, 1 << 24);
    return sim::joined(
        sim::FieldTable{
            sim::field("patch", &V::patch, Unit::count, kSize,
                       "Height and width of a patch, a divisor of the image's."),
            sim::field("layers", &V::layers, Unit::layers, kSize, "Number of layers."),
            sim::field("hidden", &V::hidden, Unit::count, kSize, "Hidden size: width of a token."),
            sim::field("heads", &V::heads, Unit::count, kSize, "Number of attention heads, a divisor of hidden."),
            sim::field("intermediate", &V::intermediate, Unit::count, kSize, "Width of the feed-forward network."),
            sim::field("attention", &V::attention,
                       "How attention runs: as one kernel (sdpa), or as separate products and passes (eager).")},
        fields_of<V>());
  }
};

class VitWriter {
 public:
  explicit VitWriter(const VitParams& p) : p_(p), net_("vit", element_type(p.dtype)) {}

  OpGraph write() {
    const SymExpr batch = SymExpr::dim("batch");
    const std::int64_t side = p_.image / p_.patch, patches = side * side;
    TensorId x = net_.images(3, p_.image);
    net_.scope("embed");
    x = net_.conv(x, p_.hidden, {.kernel = p_.patch, .stride = p_.patch, .bias = true}, "patches");
    x = net_.permute(net_.reshape(x, {batch, p_.hidden, patches}), {0, 2, 1});
    const TensorId token = net_.expand(net_.parameter("class_token", {1, 1, p_.hidden}), {batch, 1, p_.hidden});
    x = net_.add(net_.concat({token, x}, 1), net_.parameter("positions", {1, patches + 1, p_.hidden}));
    for (std::int64_t layer = 0; layer < p_.layers; ++layer) x = block(x, layer);
    net_.scope("norm");
    x = net_.layer_norm(x, "last");
    return net_.classify(net_.reshape(net_.slice(x, 1, 0, 1), {batch, p_.hidden}), p_);
  }

 private:
  TensorId block(TensorId x, std::int64_t layer) {
    net_.scope(layer_scope(layer) + ".attention");
    const TensorId all = net_.linear(net_.layer_norm(x, "norm"), 3 * p_.hidden, true, OpClass::qkv_proj, "qkv");
    std::array<TensorId, 3> parts{};
    for (std::size_t i = 0; i < 3; ++i)
      parts[i] = net_.split_heads(net_.slice(all, -1, static_cast<std::int64_t>(i) * p_.hidden, p_.hidden), p_.heads);
    const TensorId attended = attend(net_, parts[0], parts[1], parts[2], {.form = p_.attention});
    x = net_.add(x, net_.linear(attended, p_.hidden, true, OpClass::out_proj, "proj"));
    net_.scope(layer_scope(layer) + ".ffn");
    const TensorId up = net_.linear(net_.layer_norm(x, "norm"), p_.intermediate, true, OpClass::ffn_up, "fc1");
    const TensorId active = net_.emit(OpKind::gelu, {up}, OpClass::activation);
    return net_.add(x, net_.linear(active, p_.hidden, true, OpClass::ffn_down, "fc2"));
  }

  const VitParams& p_;
  ImageNet net_;
};

class Vit final : public GraphBuilder {
 public:
  explicit Vit(const VitParams& params) : p_(params) {}
  OpGraph build() const override {
    sim::Faults faults;
    if (p_.image % p_.patch != 0)
      faults.add(builder_origin("vit", "patch"),
                 "expected a divisor of the image's " + std::to_string(p_.image) + ", got " + std::to_string(p_.patch));
    if (p_.hidden % p_.heads != 0)
      faults.add(builder_origin("vit", "heads"),
                 "expected a divisor of the width " + std::to_string(p_.hidden) + ", got " + std::to_string(p_.heads));
    faults.throw_if_any();
    return VitWriter(p_).write();
  }

 private:
  VitParams p_;
};

}  // namespace

void add_vit(BuilderRegistry& registry) {
  registry.add<VitParams>("vit", "Vision transformer (ViT) with pre-norm encoder layers.",
                          [](const VitParams& params) { return std::make_unique<Vit>(params); });
}

}  // namespace orrery::models
