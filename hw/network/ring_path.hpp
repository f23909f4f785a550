// What a ring of hosts gets of a network that nobody else uses: the bandwidth and latency of a hop, and its links.
//
// All hops send at once, so hops that share a link share its bandwidth, max-min fairly, and the slowest of them is the
// ring's. Found by sending over the network itself, so that a collective in closed form and the same as flows agree.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hw/network/network.hpp"
#include "hw/network/routing.hpp"
#include "hw/network/topology.hpp"

namespace orrery::hw {

struct RingPath {
  double bandwidth = 0;          ///< bytes/s of the slowest hop; 0: a hop has no path, or there is one host
  double latency_s = 0;          ///< longest of a hop, the overhead of a message included
  std::vector<LinkIndex> links;  ///< of all hops, rising, each once
};

/// Hosts in a ring: hop i is from hosts[i] to the next, the last one to the first. Messages have this label.
struct HostRing {
  std::vector<NodeIndex> hosts;
  std::uint64_t label = 0;
};

/// What each ring gets while the others are silent. `routing` makes one for the topology. Throws std::invalid_argument
/// for a host that is not there.
std::vector<RingPath> ring_paths(const Topology& topology, const RoutingRegistry::Choice& routing, NetworkParams params,
                                 std::span<const HostRing> rings);

}  // namespace orrery::hw
