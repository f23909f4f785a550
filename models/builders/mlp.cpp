// Multilayer perceptron: linear layers of given widths with an activation between them.
#include <fmt/format.h>

#include "models/builders/net.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::models {
namespace {

using hw::OpClass;

enum class MlpActivation : std::uint8_t { relu, gelu, silu, tanh };
constexpr auto enum_names(MlpActivation) {
  using enum MlpActivation;
  return sim::names<MlpActivation>({{"relu", relu}, {"gelu", gelu}, {"silu", silu}, {"tanh", tanh}});
}

struct MlpParams {
  std::vector<std::int64_t> widths{784, 512, 512, 10};
  MlpActivation activation = MlpActivation::relu;
  bool bias = true, loss = false;
  FloatType dtype = FloatType::fp32;

  static constexpr auto fields() {
    using M = MlpParams;
    using sim::Unit;
    return sim::FieldTable{sim::field("widths", &M::widths, Unit::count, sim::between(1, 1 << 24),
                                      "Widths of the layers from the input to the output; at least two."),
                           sim::field("activation", &M::activation, "Activation function between layers."),
                           sim::field("bias", &M::bias, "Whether layers have biases."),
                           sim::field("loss", &M::loss, "Whether the graph ends in the cross entropy with labels."),
                           sim::field("dtype", &M::dtype, "Type of weights and activations.")};
  }
};

OpKind kind_of(MlpActivation activation) {
  switch (activation) {
    case MlpActivation::gelu:
      return OpKind::gelu;
    case MlpActivation::silu:
      return OpKind::silu;
    case MlpActivation::tanh:
      return OpKind::tanh;
    case MlpActivation::relu:
      break;
  }
  return OpKind::relu;
}

class Mlp final : public GraphBuilder {
 public:
  explicit Mlp(MlpParams params) : p_(std::move(params)) {}

  OpGraph build() const override {
    if (p_.widths.size() < 2)
      sim::throw_fault(builder_origin("mlp", "widths"),
                       fmt::format("expected at least two widths, got {}", p_.widths.size()));
    Net net("mlp", element_type(p_.dtype));
    const SymExpr batch = SymExpr::dim("batch");
    net.graph().facts.in_range(Symbol("batch"), {1, {}});
    TensorId x = net.graph().input("x", {batch, p_.widths.front()}, element_type(p_.dtype));
    for (std::size_t i = 1; i < p_.widths.size(); ++i) {
      net.scope(layer_scope(static_cast<std::int64_t>(i) - 1));
      x = net.linear(x, p_.widths[i], p_.bias, OpClass::ffn_up, "linear");
      if (i + 1 < p_.widths.size()) x = net.emit(kind_of(p_.activation), {x}, OpClass::activation);
    }
    if (!p_.loss) return net.finish({x});
    return net.finish({net.cross_entropy(x, net.graph().input("labels", {batch}, ElementType::int64))});
  }

 private:
  MlpParams p_;
};

}  // namespace

void add_mlp(BuilderRegistry& registry) {
  registry.add<MlpParams>("mlp", "Linear layers of given widths with activations between them.",
                          [](const MlpParams& params) { return std::make_unique<Mlp>(params); });
}

}  // namespace orrery::models
