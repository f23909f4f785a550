// Who is connected to whom: hosts and switches (nodes), directed links with bandwidth and latency.
//
// A cable is two links, one each way. Builders (ring, torus, fat tree …) fill this struct and nothing else looks at how
// it came about; routing works on the graph alone. Nodes 0 … hosts-1 are the hosts (what runs ranks), switches follow.
// Cables that run side by side are links of their own, so that routing can spread over them. A one-way cable keeps its
// second link with bandwidth 0: it is there to keep the pairs, and nothing may be sent over it.
// What a builder knows of its shape beyond the graph stands in `shape`, for the policies and queries that need it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/registry.hpp"

namespace orrery::hw {

using NodeIndex = std::uint32_t;
using LinkIndex = std::uint32_t;

struct NetworkLink {
  NodeIndex from = 0;
  NodeIndex to = 0;
  double bandwidth = 0;  ///< bytes/s, this direction; 0: the missing direction of a one-way cable
  double latency_s = 0;  ///< propagation and switching
};

/// What a builder knows besides the graph; empty or absent where it does not apply.
struct TopologyShape {
  std::vector<std::int64_t> extents;  ///< ring, torus: hosts along each dimension, the first varies fastest
  std::vector<bool> wraps;            ///< ring, torus: whether the dimension closes to a ring
  std::vector<std::uint32_t> groups;  ///< dragonfly: the group of every node
  std::int64_t rails = 0;             ///< rail_optimised: GPUs a machine; host h sits on rail h % rails
  /// Closed forms over the halves of `halves()`, over all pairs of hosts, and along shortest paths
  /// (topology_query.hpp).
  std::optional<double> bisection_bytes_per_s;
  std::optional<std::int64_t> diameter;
  std::optional<double> longest_latency_s;
};

struct Topology {
  std::string kind;                ///< the builder's name
  std::int64_t hosts = 0;          ///< nodes 0 … hosts-1
  std::vector<std::string> nodes;  ///< names, unique
  std::vector<NetworkLink> links;  ///< a cable's two directions stand side by side (2k and 2k+1)
  bool hosts_forward = false;      ///< hosts pass on what is not for them (ring, torus …); else they only end paths
  TopologyShape shape;
};

/// Most hosts, nodes and cables of a network: a topology at the limits takes some 200 MB.
inline constexpr std::int64_t kMaxHosts = 131'072;
inline constexpr std::int64_t kMaxNodes = 262'144;
inline constexpr std::int64_t kMaxCables = 2'097'152;

/// Builders by name. `make` is told where its parameters stand, reports what does not fit together as faults there, and
/// then returns null.
using TopologyRegistry = sim::Registry<Topology, const sim::Origin&, sim::Faults&>;

/// Adds every builder of this folder: ring, torus, fully_connected, star, switch_hierarchy, fat_tree, rail_optimised,
/// dragonfly, graph.
void register_topologies(TopologyRegistry& registry);

/// Builds what a policy block chooses, e.g. {"policy": "star", "star": {"hosts": 8, …}}. A block must name a policy.
/// Null if there were faults; all are in `faults`, with the pointers of the block.
std::unique_ptr<Topology> make_topology(const TopologyRegistry& registry, const sim::Node& block, sim::Faults& faults);
/// The same with the builders of this folder.
std::unique_ptr<Topology> make_topology(const sim::Node& block, sim::Faults& faults);

/// One function a builder's file.
void register_ring(TopologyRegistry& registry);
void register_torus(TopologyRegistry& registry);
void register_fully_connected(TopologyRegistry& registry);
void register_star(TopologyRegistry& registry);
void register_switch_hierarchy(TopologyRegistry& registry);
void register_fat_tree(TopologyRegistry& registry);
void register_rail_optimised(TopologyRegistry& registry);
void register_dragonfly(TopologyRegistry& registry);
void register_graph(TopologyRegistry& registry);

}  // namespace orrery::hw
