#include "experiments/systems/graph/memory.hpp"

#include "models/graph/liveness.hpp"
#include "models/graph/op_work.hpp"
#include "policies/memory/graph_buffers.hpp"

namespace orrery::experiments::graph {
MemoryFigures memory_of(const models::OpGraph& graph, const models::Bindings& bindings,
                        const policies::MemoryPlanner& planner) {
  MemoryFigures figures;
  for (const models::TensorId id : graph.tensors()) {
    const models::TensorRole role = graph.tensor(id).role;
    if (role == models::TensorRole::activation) continue;
    const std::int64_t bytes = models::bytes_of(graph, id, bindings);
    (role == models::TensorRole::input   ? figures.inputs
     : role == models::TensorRole::state ? figures.state
                                         : figures.parameters) += bytes;
  }
  const models::Liveness alive = models::liveness(graph, bindings);
  figures.live = alive.peak;
  figures.planned = planner.plan(policies::buffers_of(alive)).peak;
  return figures;
}

}  // namespace orrery::experiments::graph
