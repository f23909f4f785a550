// `fat_tree`: the three-level tree of switches with k ports (Al-Fares, Loukissas and Vahdat, SIGCOMM 2008, section 3).
//
//   k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 core switches; an edge switch has k/2 hosts. Core switch
//   (i, j) is cabled to aggregation switch i of every pod.
//   hosts k^3/4, switches 5 k^2/4, cables 3 k^3/4; bisection k^3/8 bandwidth / oversubscription; diameter 6
//
// Oversubscription thins the cables between switches: a fabric cable has 1/oversubscription of a host's bandwidth.
#include <fmt/format.h>

#include <memory>

#include "hw/network/topology_build.hpp"

namespace orrery::hw {
namespace {

struct FatTreeParams {
  std::int64_t k = 4;
  double bandwidth = 0;
  double latency_s = 0;
  double oversubscription = 1;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("k", &FatTreeParams::k, Unit::count, sim::at_least(2),
                                 "Number of ports of a switch, an even number.")),
        sim::required(sim::field("bandwidth", &FatTreeParams::bandwidth, Unit::bytes_per_s, sim::positive(),
                                 "Bandwidth of a host's cable, each way.")),
        sim::required(sim::field("latency", &FatTreeParams::latency_s, Unit::seconds, sim::between(0, 1),
                                 "Latency of one link; two hosts are 2, 4 or 6 links apart.")),
        sim::field("oversubscription", &FatTreeParams::oversubscription, Unit::ratio, sim::between(1, 1000),
                   "Bandwidth of a host's cable divided by that of a cable between switches."),
    };
  }
};

/// Switches between hosts and core, then the core.
void add_switches(Topology& topology, std::int64_t k) {
  const std::int64_t half = k / 2;
  for (const char* level : {"edge", "agg"})
    for (std::int64_t pod = 0; pod < k; ++pod)
      for (std::int64_t i = 0; i < half; ++i) add_node(topology, fmt::format("{}{}.{}", level, pod, i));
  for (std::int64_t i = 0; i < half; ++i)
    for (std::int64_t j = 0; j < half; ++j) add_node(topology, fmt::format("core{}.{}", i, j));
}

std::unique_ptr<Topology> build_fat_tree(const FatTreeParams& params, const sim::Origin& where, sim::Faults& faults) {
  auto topology = std::make_unique<Topology>();
  topology->kind = "fat_tree";
  if (!has_bandwidth(params.bandwidth, "bandwidth", where, faults)) return nullptr;
  if (params.k % 2 != 0) {
    faults.add(below(where, "k"), fmt::format("expected an even number of ports, got {}", params.k));
    return nullptr;
  }
  const double ports = static_cast<double>(params.k);
  const double hosts = ports * ports * ports / 4;
  if (!fits(*topology, {hosts, 5 * ports * ports / 4, 3 * hosts}, where, faults)) return nullptr;
  const std::int64_t half = params.k / 2;
  add_hosts(*topology, params.k * half * half);
  add_switches(*topology, params.k);
  const auto edge = [&](std::int64_t pod, std::int64_t i) {
    return static_cast<NodeIndex>(topology->hosts + pod * half + i);
  };
  const auto agg = [&](std::int64_t pod, std::int64_t i) { return edge(params.k + pod, i); };
  const auto core = [&](std::int64_t i, std::int64_t j) { return edge(2 * params.k + i, j); };
  for (std::int64_t h = 0; h < topology->hosts; ++h)
    add_cable(*topology, static_cast<NodeIndex>(h), edge(0, h / half), {params.bandwidth, params.latency_s});
  const Cable fabric{params.bandwidth / params.oversubscription, params.latency_s};
  for (std::int64_t pod = 0; pod < params.k; ++pod)
    for (std::int64_t i = 0; i < half; ++i)
      for (std::int64_t j = 0; j < half; ++j) add_cable(*topology, edge(pod, i), agg(pod, j), fabric);
  for (std::int64_t pod = 0; pod < params.k; ++pod)
    for (std::int64_t i = 0; i < half; ++i)
      for (std::int64_t j = 0; j < half; ++j) add_cable(*topology, agg(pod, i), core(i, j), fabric);
  TopologyShape& shape = topology->shape;
  shape.bisection_bytes_per_s = static_cast<double>(topology->hosts / 2) * fabric.bandwidth;
  shape.diameter = 6;
  shape.longest_latency_s = 6 * params.latency_s;
  return topology;
}

}  // namespace

void register_fat_tree(TopologyRegistry& registry) {
  registry.add<FatTreeParams>("fat_tree", "Three levels of switches with k ports; k^3/4 hosts.", build_fat_tree);
}

}  // namespace orrery::hw
