// Which links a message takes.
//
// Contract of a routing policy: given a pair of nodes and a label, it appends the links of one path. The same label
// takes the same path as long as the links are the same. Different labels spread over equally good paths by hash
// (deterministic, no state). A link that is down is never used and no node is met twice. Only nodes that forward
// (switches; hosts where the topology says so) stand between the ends. What a policy caches never shows in its answers.
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
  /// Links went down or came up: `up[link]`, for every link. Paths given before may be stale.
  virtual void links_changed(const std::vector<bool>& up) = 0;
};

/// Routing policies by name; the topology must outlive what is made. A policy that cannot serve a topology throws
/// ConfigError when it is made.
using RoutingRegistry = sim::Registry<Routing, const Topology&>;

/// Adds every policy of this folder: shortest, lowest_latency, dimension_order, valiant, rail.
void register_routing(RoutingRegistry& registry);

/// Makes what a policy block chooses, `shortest` if it names none; the topology must outlive it. Null if there were
/// faults, a policy that cannot serve the topology among them; all are in `faults`, with the pointers of the block.
std::unique_ptr<Routing> make_routing(const sim::Node& block, const Topology& topology, sim::Faults& faults);

/// One function a policy's file.
void register_shortest(RoutingRegistry& registry);
void register_lowest_latency(RoutingRegistry& registry);
void register_dimension_order(RoutingRegistry& registry);
void register_valiant(RoutingRegistry& registry);
void register_rail(RoutingRegistry& registry);

/// The choice of a message: what spreads over equally good links. One output of splitmix64's finaliser each.
std::uint64_t route_hash(NodeIndex from, NodeIndex to, std::uint64_t label);
/// Uniform on 0 … n-1 from a message's hash, different at every node (or other `salt`); n >= 1 and below 2^32.
std::uint64_t route_pick(std::uint64_t hash, std::uint64_t salt, std::uint64_t n);

}  // namespace orrery::hw
