// Collectives and messages of ranks in equal nodes, in closed form: what a group has inside a node and between nodes.
//
// Inside a node a collective costs what its library makes of the device's link (library_collective.hpp). Across nodes
// it is a ring whose slowest hop is the node's adapters, or, for an all-reduce, a tree where the library chooses one
// (library_plan.hpp). A group that has g ranks in a node gets g / D of its adapters, for the other D - g devices'
// groups send at the same time. n ranks in N nodes, S bytes, A the bandwidth of the group's adapters in a node:
//   ring  start + 2(n-N) step + 2(N-1)(wire + step) + 2(n-1)/n S / (ring_share A), of other calls half of the steps and
//   bytes tree  start + 2(g-1) step + 2 ceil(log2 N)(wire + step) + S / A, of more than two nodes 2 S / A: of the two
//   trees in
//         one a node has two others below it
// Under LL a path keeps ll_efficiency of its bandwidth and nothing is started. A step is that of the link's protocol;
// in a tree under Simple it is the time of a chunk of 256 kB, 28 us.
#pragma once

#include <cstdint>
#include <span>

#include "hw/network/library_plan.hpp"
#include "hw/parts/nic.hpp"

namespace orrery::hw {

/// Equal nodes: D devices each, joined by `link`; adapters join the nodes.
struct NodeFabric {
  const LinkParams& link;
  std::int64_t devices = 1;      ///< of a node
  const NicPart* nic = nullptr;  ///< none: there is one node
  std::int64_t nics = 1;         ///< of a node
};

/// Members of a group that are `stride` devices apart, the first one at a node's begin.
RankGroup rank_group(const NodeFabric& fabric, std::int64_t ranks, std::int64_t stride);

/// Seconds until the last rank has its data, and joules of what one rank sends.
struct GroupCost {
  double time_s = 0, energy_j = 0;
};

/// A collective on `bytes` (as library_collective has them) in a group, all such groups at once. Constant time.
GroupCost node_collective(const NodeFabric& fabric, LibraryCall call, const RankGroup& group, double bytes);

/// An all-to-all of tokens' rows in which a token that several of a rank's experts want travels there once, and to
/// another node once, from where it goes on to its ranks over their links (DeepEP). `bytes`: of all rows, a token
/// having `choices` of them, spread evenly over the ranks, or over those of at most `most_nodes` nodes (0: of any).
GroupCost routed_exchange(const NodeFabric& fabric, const RankGroup& group, double bytes, std::int64_t choices,
                          std::int64_t most_nodes = 0);

/// An all-to-all whose ranks send unlike much: `bytes[from * ranks + to]`; what a rank keeps costs nothing. The fullest
/// way, out of a rank or into it, over its link or its share of the adapters, sets the time. With equal bytes inside a
/// node it is node_collective's all-to-all.
GroupCost uneven_exchange(const NodeFabric& fabric, const RankGroup& group, std::span<const double> bytes);

/// A message to a rank of another node, of so many ranks of a node at once: each has an adapter of its own where there
/// are as many, else its share of all.
GroupCost message_between_nodes(const NodeFabric& fabric, std::int64_t senders, double bytes);

/// A message to the rank that is `stride` devices further, every rank at once.
GroupCost node_message(const NodeFabric& fabric, std::int64_t stride, double bytes);

}  // namespace orrery::hw
