#include "hw/network/routing.hpp"

#include "sim/base/mix.hpp"

namespace orrery::hw {
std::uint64_t route_hash(NodeIndex from, NodeIndex to, std::uint64_t label) {
  return sim::mix64(sim::mix64((static_cast<std::uint64_t>(from) << 32) | to) ^ label);
}

std::uint64_t route_pick(std::uint64_t hash, std::uint64_t salt, std::uint64_t n) {
  // Salted at every node: switches that all chose by the same bits would leave most paths of the next level unused.
  return ((sim::mix64(hash + salt * 0xd1342543de82ef95ULL) >> 32) * n) >> 32;
}

std::unique_ptr<Routing> make_routing(const sim::Node& block, const Topology& topology, sim::Faults& faults) {
  RoutingRegistry registry("routing");
  register_routing(registry);
  const std::size_t before = faults.size();
  const auto choice = registry.parse_block(block, "shortest", faults);
  if (faults.size() != before) return nullptr;
  try {
    return choice.make(topology);
  } catch (const sim::ConfigError& misfit) {
    // Only here is it known where the policy was asked for.
    const sim::Node* policy = block.find("policy");
    for (const sim::Fault& fault : misfit.faults())
      faults.add(policy != nullptr ? policy->origin() : block.origin(), fault.message, fault.hint);
    return nullptr;
  }
}

void register_routing(RoutingRegistry& registry) {
  register_shortest(registry);
  register_lowest_latency(registry);
  register_dimension_order(registry);
  register_valiant(registry);
  register_rail(registry);
}

}  // namespace orrery::hw
