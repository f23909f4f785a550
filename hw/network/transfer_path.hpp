// What a transfer among hosts gets of a network that nobody else uses: bandwidth and latency of a message, and its
// links.
//
// A transfer is a set of equal messages that are sent all at once: a hop of a ring from each host, one from each host
// to every other, or one from each device of a pipeline stage to the next. Messages that share a link share its
// bandwidth, max-min fairly, and the slowest of them is the transfer's. Found by sending over the network itself, so
// that a collective in closed form and the same as flows agree.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "hw/network/network.hpp"
#include "hw/network/routing.hpp"
#include "hw/network/topology.hpp"

namespace orrery::hw {

/// Messages have this label, by which their routes are chosen.
struct Transfer {
  std::vector<std::pair<NodeIndex, NodeIndex>> messages;  ///< from, to
  std::uint64_t label = 0;
};

/// Hop i is from hosts[i] to the next, the last one to the first; none among fewer than two hosts. Added to what the
/// transfer has.
void add_ring(std::span<const NodeIndex> hosts, Transfer& transfer);
/// A message from each host to every other.
void add_all_pairs(std::span<const NodeIndex> hosts, Transfer& transfer);
/// A message from each host to that of the same place on the other side, which has as many.
void add_pairs(std::span<const NodeIndex> from, std::span<const NodeIndex> to, Transfer& transfer);

struct TransferPath {
  double bandwidth = 0;          ///< bytes/s of the slowest message; 0: one has no path, or there is none
  double latency_s = 0;          ///< longest of a message, its overhead included
  double mean_latency_s = 0;     ///< over messages: of a step of a ring, whose data pass all hops in turn
  std::vector<LinkIndex> links;  ///< of all messages, rising, each once
};

/// What each transfer gets while the others are silent. `routing` makes one for the topology. Throws
/// std::invalid_argument for a host that is not there.
std::vector<TransferPath> transfer_paths(const Topology& topology, const RoutingRegistry::Choice& routing,
                                         NetworkParams params, std::span<const Transfer> transfers);

}  // namespace orrery::hw
