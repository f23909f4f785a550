// A network that carries messages in simulated time: a topology, a routing policy, and flows over its links.
//
// A message from one node to another costs `message_overhead` and the latency of its path, then moves at its max-min
// fair share. Links can degrade or fail while messages are under way: flows on a failed link take another path with the
// bytes they have left, or wait until one comes back.
#pragma once

#include <cstdint>

#include "hw/network/routing.hpp"
#include "hw/network/topology.hpp"
#include "sim/engine.hpp"
#include "sim/flow_network.hpp"

namespace orrery::hw {

class Network {
 public:
  /// Starts moving `bytes` (>= 0) from node to node; `on_arrival` is told when the last byte has arrived. Messages of
  /// equal (from, to, label) take one path. A message to oneself arrives after the overhead alone.
  void send(NodeIndex from, NodeIndex to, std::int64_t bytes, std::uint64_t label, sim::EventHandler& on_arrival,
            std::uint64_t payload);
  sim::Engine& engine();
  const Topology& topology() const;
};

}  // namespace orrery::hw
