#include "policies/base/graph_pass.hpp"

#include <stdexcept>

namespace orrery::policies {

double PassContext::time_s(const models::OpGraph& graph, models::OpId op, const models::Bindings& bindings) const {
  if (cost == nullptr) throw std::logic_error("a pass asked for a time without a device");
  models::GraphLaunches launches;
  models::lower(graph, op, bindings, launches);
  double total = 0;
  for (const models::GraphKernel& launch : launches.kernels) total += cost->cost(launch.kernel).time_s + launch_s;
  return total;
}

double PassContext::time_s(const models::OpGraph& graph, const models::Bindings& bindings) const {
  double total = 0;
  for (const models::OpId id : graph.ops()) total += time_s(graph, id, bindings);
  return total;
}

void register_graph_passes(PassRegistry& registry) {
  register_training_passes(registry);
  register_placement_passes(registry);
  register_fusion_passes(registry);
  register_memory_passes(registry);
}

}  // namespace orrery::policies
