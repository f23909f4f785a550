// `fully_connected`: a cable between every two hosts.
//
//   hosts n, cables n (n-1)/2; bisection floor(n/2) ceil(n/2) bandwidth; diameter 1
#include <memory>

#include "hw/network/topology_build.hpp"

namespace orrery::hw {
namespace {

struct FullyConnectedParams {
  std::int64_t hosts = 2;
  double bandwidth = 0;
  double latency_s = 0;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::required(
            sim::field("hosts", &FullyConnectedParams::hosts, Unit::count, sim::at_least(2), "Number of hosts.")),
        sim::required(sim::field("bandwidth", &FullyConnectedParams::bandwidth, Unit::bytes_per_s, sim::positive(),
                                 "Bandwidth of the cable between two hosts, each way.")),
        sim::required(sim::field("latency", &FullyConnectedParams::latency_s, Unit::seconds, sim::between(0, 1),
                                 "Latency of a cable.")),
    };
  }
};

std::unique_ptr<Topology> build_fully_connected(const FullyConnectedParams& params, const sim::Origin& where,
                                                sim::Faults& faults) {
  auto topology = std::make_unique<Topology>();
  topology->kind = "fully_connected";
  if (!has_bandwidth(params.bandwidth, "bandwidth", where, faults)) return nullptr;
  const double n = static_cast<double>(params.hosts);
  if (!fits(*topology, {n, 0, n * (n - 1) / 2}, where, faults)) return nullptr;
  add_hosts(*topology, params.hosts);
  for (std::int64_t a = 0; a < params.hosts; ++a)
    for (std::int64_t b = a + 1; b < params.hosts; ++b)
      add_cable(*topology, static_cast<NodeIndex>(a), static_cast<NodeIndex>(b), {params.bandwidth, params.latency_s});
  topology->hosts_forward = true;
  TopologyShape& shape = topology->shape;
  const std::int64_t half = params.hosts / 2;
  shape.bisection_bytes_per_s = static_cast<double>(half * (params.hosts - half)) * params.bandwidth;
  shape.diameter = 1;
  shape.longest_latency_s = params.latency_s;
  return topology;
}

}  // namespace

void register_fully_connected(TopologyRegistry& registry) {
  registry.add<FullyConnectedParams>("fully_connected", "A cable between every two hosts.", build_fully_connected);
}

}  // namespace orrery::hw
