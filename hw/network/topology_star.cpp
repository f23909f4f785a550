// `star`: hosts around one switch, each with a link up and a link down of its own.
//
//   hosts n, switches 1, cables n; bisection floor(n/2) bandwidth; diameter 2
#include <memory>

#include "hw/network/topology_build.hpp"

namespace orrery::hw {
namespace {

struct StarParams {
  std::int64_t hosts = 2;
  double bandwidth = 0;
  double latency_s = 0;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("hosts", &StarParams::hosts, Unit::count, sim::at_least(2),
                                 "Number of hosts around the switch.")),
        sim::required(sim::field("bandwidth", &StarParams::bandwidth, Unit::bytes_per_s, sim::positive(),
                                 "Bandwidth of a host's cable, each way.")),
        sim::required(sim::field("latency", &StarParams::latency_s, Unit::seconds, sim::between(0, 1),
                                 "Latency of one link; a message crosses two.")),
    };
  }
};

std::unique_ptr<Topology> build_star(const StarParams& params, const sim::Origin& where, sim::Faults& faults) {
  auto topology = std::make_unique<Topology>();
  topology->kind = "star";
  if (!has_bandwidth(params.bandwidth, "bandwidth", where, faults)) return nullptr;
  const double n = static_cast<double>(params.hosts);
  if (!fits(*topology, {n, 1, n}, where, faults)) return nullptr;
  add_hosts(*topology, params.hosts);
  const NodeIndex centre = add_node(*topology, "switch");
  for (std::int64_t h = 0; h < params.hosts; ++h)
    add_cable(*topology, static_cast<NodeIndex>(h), centre, {params.bandwidth, params.latency_s});
  TopologyShape& shape = topology->shape;
  shape.bisection_bytes_per_s = static_cast<double>(params.hosts / 2) * params.bandwidth;
  shape.diameter = 2;
  shape.longest_latency_s = 2 * params.latency_s;
  return topology;
}

}  // namespace

void register_star(TopologyRegistry& registry) {
  registry.add<StarParams>("star", "Hosts around one non-blocking switch.", build_star);
}

}  // namespace orrery::hw
