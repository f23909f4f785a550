// Graphs of builders by name and JSON parameters, and what they add up to.
#pragma once

#include <string>

#include "models/builders/builder.hpp"
#include "models/graph/graph_lowering.hpp"
#include "models/graph/op_work.hpp"

namespace orrery::models::test {

/// The graph of builder `name` with parameters as they would stand in a config.
inline OpGraph built(const std::string& name, const std::string& params = "{}") {
  BuilderRegistry registry("builder");
  register_builders(registry, std::string(ORRERY_SOURCE_DIR) + "/models/catalog");
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "params.json");
  const auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return choice.make()->build();
}

/// Elements of all parameters.
inline std::int64_t parameters(const OpGraph& graph) {
  SymExpr sum = 0;
  for (const TensorId id : graph.with_role(TensorRole::parameter)) sum += graph.tensor(id).elements();
  return sum.constant().value();
}

/// FLOPs of products, convolutions and attention.
inline std::int64_t matrix_flops(const OpGraph& graph, const Bindings& bindings) {
  return total_work(graph, bindings).matrix_flops.constant().value();
}

inline std::int64_t count(const OpGraph& graph, OpKind kind) {
  std::int64_t found = 0;
  for (const OpId id : graph.ops()) found += graph.op(id).kind == kind ? 1 : 0;
  return found;
}

}  // namespace orrery::models::test
