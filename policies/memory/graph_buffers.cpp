#include "policies/memory/graph_buffers.hpp"

#include "sim/base/registry.hpp"

namespace orrery::policies {

std::vector<Buffer> buffers_of(const models::Liveness& liveness, std::int64_t alignment) {
  std::vector<Buffer> buffers;
  buffers.reserve(liveness.lifetimes.size());
  for (const models::Lifetime& life : liveness.lifetimes)
    buffers.push_back({life.begin, life.end, life.bytes, alignment, life.in_place_of});
  return buffers;
}

GraphPeak graph_peak(const models::OpGraph& graph, const models::Bindings& bindings) {
  MemoryPlannerRegistry planners("memory planner");
  register_memory_planners(planners);
  sim::Faults none;
  const models::Liveness alive = models::liveness(graph, bindings);
  return {alive.peak, planners.prepare("best_fit", nullptr, {}, none).make()->plan(buffers_of(alive)).peak};
}

}  // namespace orrery::policies
