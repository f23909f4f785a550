// What the devices of replicas have of machine.network: the ring of each, who else sends over it, and their links.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "experiments/systems/serving/setup_state.hpp"

namespace orrery::experiments {

/// By which the routes of a replica's messages are chosen.
std::uint64_t ring_label(std::size_t replica) {
  return sim::hash_text(fmt::format("replica{}", replica));
}

bool ServingSetup::State::measure_rings() {
  if (!config.fabric) return true;
  const FabricConfig& fabric = *config.fabric;
  bool hands_over = false;
  std::vector<hw::HostRing> all;
  for (const ReplicaGroup& group : config.groups) {
    hands_over = hands_over || group.params.role == Role::prefill;
    for (std::int64_t i = 0; i < group.params.count; ++i)
      all.push_back({hosts_of(config, all.size()), ring_label(all.size())});
  }
  rings = hw::ring_paths(*fabric.topology, fabric.routing, fabric.network, all);
  for (std::size_t i = 0; i < rings.size(); ++i) {
    if (all[i].hosts.size() < 2 || rings[i].bandwidth > 0) continue;
    infeasible = Infeasible{fmt::format("machine.network has no way between all devices of replica {}", i)};
    return false;
  }
  const auto shares = [&](const hw::RingPath& a, const hw::RingPath& b) {
    std::vector<hw::LinkIndex> both;
    std::ranges::set_intersection(a.links, b.links, std::back_inserter(both));
    return !both.empty();
  };
  for (const hw::RingPath& ring : rings)
    meets_others.push_back(
        !config.network_workload.empty() || hands_over ||
        std::ranges::any_of(rings, [&](const hw::RingPath& other) { return &other != &ring && shares(ring, other); }));
  return true;
}

hw::RingPath ServingSetup::State::slowest_ring(std::size_t group) const {
  if (rings.empty()) return {};
  std::size_t first = 0;
  for (std::size_t g = 0; g < group; ++g) first += static_cast<std::size_t>(config.groups[g].params.count);
  const auto all = std::span(rings).subspan(first, static_cast<std::size_t>(config.groups[group].params.count));
  return *std::ranges::min_element(all, {},
                                   [](const hw::RingPath& ring) { return std::pair(ring.bandwidth, -ring.latency_s); });
}

/// The library's rings over that path: every step waits for its latency, and no switch adds anything up.
hw::Device ServingSetup::State::on_network(const ReplicaKind& kind, hw::Device device) const {
  if (kind.ring.bandwidth == 0) return device;
  hw::LinkParams& link = device.link;
  link.bandwidth = kind.ring.bandwidth;
  link.pair_bandwidth = link.quad_bandwidth = link.relayed_bandwidth = 0;
  link.peers = 0;
  link.far = {};
  link.in_switch.ranks = 0;
  for (double* step : {&link.ring.ll_step_s, &link.ring.ll128_step_s, &link.ring.simple_step_s})
    *step += kind.ring.latency_s;
  return device;
}

}  // namespace orrery::experiments
