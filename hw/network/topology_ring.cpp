// `ring`: hosts in a circle, each with a cable to the next.
//
//   hosts n, cables n (one for n = 2); bisection 2 bandwidth (bandwidth if one-way or n = 2); diameter n/2 (n-1
//   one-way)
#include <memory>

#include "hw/network/topology_build.hpp"

namespace orrery::hw {
namespace {

struct RingTopologyParams {
  std::int64_t hosts = 2;
  bool bidirectional = true;
  double bandwidth = 0;
  double latency_s = 0;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("hosts", &RingTopologyParams::hosts, Unit::count, sim::at_least(2),
                                 "Number of hosts in the ring.")),
        sim::field("bidirectional", &RingTopologyParams::bidirectional,
                   "Whether cables carry data both ways; otherwise only from host i to i+1."),
        sim::required(sim::field("bandwidth", &RingTopologyParams::bandwidth, Unit::bytes_per_s, sim::positive(),
                                 "Bandwidth of a cable, each way.")),
        sim::required(sim::field("latency", &RingTopologyParams::latency_s, Unit::seconds, sim::between(0, 1),
                                 "Latency of a cable, including what its end adds.")),
    };
  }
};

std::unique_ptr<Topology> build_ring(const RingTopologyParams& params, const sim::Origin& where, sim::Faults& faults) {
  auto topology = std::make_unique<Topology>();
  topology->kind = "ring";
  if (!has_bandwidth(params.bandwidth, "bandwidth", where, faults)) return nullptr;
  const double n = static_cast<double>(params.hosts);
  if (!fits(*topology, {n, 0, n}, where, faults)) return nullptr;
  add_hosts(*topology, params.hosts);
  // Two hosts have one cable, which as any cable goes both ways: a ring of two has no other direction.
  const bool pair = params.hosts == 2;
  const bool one_way = !params.bidirectional && !pair;
  for (std::int64_t h = 0; h < (pair ? 1 : params.hosts); ++h)
    add_cable(*topology, static_cast<NodeIndex>(h), static_cast<NodeIndex>((h + 1) % params.hosts),
              {params.bandwidth, params.latency_s, one_way});
  topology->hosts_forward = true;
  TopologyShape& shape = topology->shape;
  shape.extents = {params.hosts};
  shape.wraps = {true};
  shape.bisection_bytes_per_s = (pair || one_way ? 1 : 2) * params.bandwidth;
  shape.diameter = one_way ? params.hosts - 1 : params.hosts / 2;
  shape.longest_latency_s = static_cast<double>(*shape.diameter) * params.latency_s;
  return topology;
}

}  // namespace

void register_ring(TopologyRegistry& registry) {
  registry.add<RingTopologyParams>("ring", "Hosts in a circle, each with a cable to the next.", build_ring);
}

}  // namespace orrery::hw
