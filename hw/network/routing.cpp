#include "hw/network/routing.hpp"

namespace orrery::hw {
namespace {

/// Finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014): every bit of the input moves every bit of the output.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t route_hash(NodeIndex from, NodeIndex to, std::uint64_t label) {
  return mixed(mixed((static_cast<std::uint64_t>(from) << 32) | to) ^ label);
}

std::uint64_t route_pick(std::uint64_t hash, std::uint64_t salt, std::uint64_t n) {
  // Salted at every node: switches that all chose by the same bits would leave most paths of the next level unused.
  return ((mixed(hash + salt * 0xd1342543de82ef95ULL) >> 32) * n) >> 32;
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
