// Which links a message takes.
//
// Contract of a routing policy: given a pair of nodes and a label, it appends the links of one path. The same label
// always takes the same path while the links are the same; different labels spread over equally good paths by hash
// (deterministic, no state). A link that is down is never used.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hw/network/topology.hpp"
#include "sim/base/registry.hpp"

namespace orrery::hw {

class Routing {
 public:
  virtual ~Routing() = default;
  /// Appends the links of a path from `from` to `to` (none if they are equal). False, with nothing appended, if no path
  /// is left.
  virtual bool route(NodeIndex from, NodeIndex to, std::uint64_t label, std::vector<LinkIndex>& path) = 0;
  /// Links went down or came up: `up[link]`. Paths given before may be stale.
  virtual void links_changed(const std::vector<bool>& up) = 0;
};

/// Routing policies by name; the topology must outlive what is made.
using RoutingRegistry = sim::Registry<Routing, const Topology&>;

}  // namespace orrery::hw
