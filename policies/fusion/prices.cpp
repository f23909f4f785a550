#include "policies/fusion/prices.hpp"

namespace orrery::policies {
namespace {

using models::Attribute;
using models::OpGraph;
using models::OpNode;
using models::SymExpr;

/// Everything an op's price depends on, as text: kinds, sizes, types, attributes, and the same of its region.
class Signature {
 public:
  explicit Signature(const models::Bindings& bindings) : bindings_(bindings) {}

  void op(const OpGraph& graph, const OpNode& node) {
    number(static_cast<std::int64_t>(node.kind));
    for (const models::TensorId id : node.inputs) tensor(graph, id);
    text += '>';
    for (const models::TensorId id : node.outputs) tensor(graph, id);
    for (const auto& [name, value] : node.attributes) {
      text += name;
      attribute(value);
    }
    for (const auto& region : node.regions) {
      text += '{';
      for (const models::OpId id : region->ops()) op(*region, region->op(id));
      for (const models::TensorId id : region->outputs()) number(static_cast<std::int64_t>(index(id)));
      text += '}';
    }
  }

  std::string text;

 private:
  void number(std::int64_t value) {
    text += std::to_string(value);
    text += ' ';
  }
  void size(const SymExpr& expression) {
    number(expression.constant() ? *expression.constant() : expression.eval(bindings_));
  }
  /// Inside a region who makes what matters too; tensors of one region are numbered alike in equal regions.
  void tensor(const OpGraph& graph, models::TensorId id) {
    text += graph.name == "fused" ? 'r' + std::to_string(index(id)) : std::string("t");
    number(static_cast<std::int64_t>(graph.tensor(id).type));
    for (const SymExpr& dim : graph.tensor(id).shape) size(dim);
  }
  void attribute(const Attribute& value) {
    text += '=';
    if (const auto* expression = std::get_if<SymExpr>(&value)) size(*expression);
    if (const auto* real = std::get_if<double>(&value)) text += std::to_string(*real);
    if (const auto* string = std::get_if<std::string>(&value)) text += *string;
    if (const auto* list = std::get_if<std::vector<SymExpr>>(&value))
      for (const SymExpr& expression : *list) size(expression);
  }

  const models::Bindings& bindings_;
};

hw::Kernel pass_of(std::int64_t bytes) {
  hw::Kernel kernel;
  kernel.shape =
      hw::Streaming{.read_bytes = bytes, .write_bytes = bytes, .flops = bytes, .pass = hw::Pass::elementwise};
  return kernel;
}

}  // namespace

FusionPrices::FusionPrices(const PassContext& context) {
  if (context.cost == nullptr) return;
  constexpr std::int64_t kSmall = 64, kLarge = std::int64_t{1} << 30;
  const double small = context.cost->cost(pass_of(kSmall)).time_s, large = context.cost->cost(pass_of(kLarge)).time_s;
  byte_s = (large - small) / (2.0 * static_cast<double>(kLarge - kSmall));
  launch_s = context.launch_s + small;
}

double PricedOps::time_s(const OpGraph& graph, models::OpId op) {
  Signature signature(context_.typical);
  signature.op(graph, graph.op(op));
  // An expanded operand is read at its smaller size, which only the graph around the op knows.
  for (const models::TensorId input : graph.op(op).inputs) {
    const std::optional<models::OpId> maker = graph.producer(input);
    if (maker && models::info(graph.op(*maker).kind).pattern == models::Pattern::view)
      return context_.time_s(graph, op, context_.typical);
  }
  const auto [place, fresh] = known_.try_emplace(std::move(signature.text), 0);
  if (fresh) place->second = context_.time_s(graph, op, context_.typical);
  return place->second;
}

}  // namespace orrery::policies
