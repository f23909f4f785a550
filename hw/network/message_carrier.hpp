// Whatever moves messages between nodes.
#pragma once

#include <cstdint>

#include "hw/network/topology.hpp"
#include "sim/engine.hpp"

namespace orrery::hw {

/// Moves messages between nodes. `on_arrival` is given `payload` when the last byte is there: in an event of its own,
/// never inside of send(). What has equal (from, to, label) takes one path.
class MessageCarrier {
 public:
  virtual ~MessageCarrier() = default;
  virtual void send(NodeIndex from, NodeIndex to, std::int64_t bytes, std::uint64_t label,
                    sim::EventHandler& on_arrival, std::uint64_t payload) = 0;
};

}  // namespace orrery::hw
