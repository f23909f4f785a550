#include "models/graph/graph_dimensions.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::models {
namespace {

Facts with_dimension(const Facts& facts, Symbol dimension, const SymExpr& by) {
  const std::vector<Symbol> in = by.symbols();
  const std::optional<Symbol> one =
      in.size() == 1 && by == SymExpr(in.front()) ? std::optional(in.front()) : std::nullopt;
  Facts out;
  for (const auto& [symbol, bounds] : facts.ranges())
    if (symbol != dimension || one) out.in_range(symbol == dimension ? *one : symbol, bounds);
  for (const auto& [symbol, expr] : facts.equalities())
    if (symbol != dimension || one) out.equal(symbol == dimension ? *one : symbol, expr.substitute(dimension, by));
  for (const auto& [symbol, divisor] : facts.divisors())
    if (symbol != dimension || one) out.divisible(symbol == dimension ? *one : symbol, divisor);
  return out;
}

void put(OpGraph& graph, Symbol dimension, const SymExpr& by) {
  graph.facts = with_dimension(graph.facts, dimension, by);
  for (const TensorId id : graph.tensors())
    for (SymExpr& size : graph.annotate(id).shape) size = size.substitute(dimension, by);
  for (const OpId id : graph.ops()) {
    OpNode& op = graph.annotate(id);
    for (auto& [name, value] : op.attributes) {
      if (auto* size = std::get_if<SymExpr>(&value)) *size = size->substitute(dimension, by);
      if (auto* sizes = std::get_if<std::vector<SymExpr>>(&value))
        for (SymExpr& size : *sizes) size = size.substitute(dimension, by);
    }
    for (auto& region : op.regions) {
      auto next = std::make_shared<OpGraph>(*region);
      put(*next, dimension, by);
      region = std::move(next);
    }
  }
}

}  // namespace

OpGraph with_dimension(OpGraph graph, Symbol dimension, const SymExpr& by) {
  const std::vector<Symbol> all = graph.symbols();
  if (std::find(all.begin(), all.end(), dimension) == all.end()) {
    std::vector<std::string> names;
    for (const Symbol symbol : all) names.push_back(symbol.name());
    throw GraphError(fmt::format("graph '{}' has no dimension '{}', only [{}]", graph.name, dimension.name(),
                                 fmt::join(names, ", ")));
  }
  put(graph, dimension, by);
  return graph;
}

}  // namespace orrery::models
