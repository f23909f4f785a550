#include "policies/base/graph_pass.hpp"

#include <algorithm>

#include <stdexcept>

namespace orrery::policies {
namespace {

/// Calls `each` for the kernels of an op, of a fused one for those of each op inside.
template <class Each>
void for_each_kernel(const models::OpGraph& graph, models::OpId op, const models::Bindings& sizes, const Each& each) {
  const models::OpNode& node = graph.op(op);
  if (node.kind == models::OpKind::fused) {
    const models::OpGraph& inside = *node.regions.front();
    for (const models::OpId inner : inside.ops()) for_each_kernel(inside, inner, sizes, each);
    return;
  }
  models::GraphLaunches launches;
  models::lower(graph, op, sizes, launches);
  for (const models::GraphKernel& launch : launches.kernels) each(launch.kernel);
}

}  // namespace

bool PassTarget::runs(const models::OpGraph& graph, models::OpId op, const models::Bindings& sizes) const {
  bool all = true;
  for_each_kernel(graph, op, sizes, [&](const hw::Kernel& kernel) { all = all && !cost->obstacle(kernel); });
  return all;
}

hw::Cost PassTarget::work(const models::OpGraph& graph, models::OpId op, const models::Bindings& sizes) const {
  hw::Cost all;
  for_each_kernel(graph, op, sizes, [&](const hw::Kernel& kernel) {
    const hw::Cost one = cost->cost(kernel);
    all.time_s += std::max(0.0, one.time_s - launch_in_cost_s);
    all.flops += one.flops;
    all.dram_bytes += one.dram_bytes;
    all.compute_energy_j += one.compute_energy_j;
    all.memory_energy_j += one.memory_energy_j;
  });
  return all;
}

const PassTarget* PassContext::target(const std::string& name) const {
  const auto found = std::ranges::find(targets, name, &PassTarget::name);
  return found == targets.end() ? nullptr : &*found;
}

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

bool sizes_known(const models::OpGraph& graph, const models::Bindings& bindings) {
  return std::ranges::all_of(graph.symbols(), [&](models::Symbol symbol) { return bindings.find(symbol).has_value(); });
}

}  // namespace orrery::policies
