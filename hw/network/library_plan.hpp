// Ring or tree, and by which protocol: what an NCCL-class library chooses for a collective over nodes.
//
// The library compares its own estimates (NCCL 2.18 to 2.28, src/graph/tuning.cc; us and GB/s there). n ranks in N
// nodes, g = n / N in a node, S bytes, P the bandwidth that its search of the topology finds for a ring:
//   ring  latency  base + 2(n-N) inner + 2(N-1) outer, 1.9 times the steps' under Simple; bandwidth n/(2(n-1)) P,
//                  times 1/4 under LL, 0.92 under LL128 (0.7 for one rank a node); of other calls than all-reduce half
//                  the steps, twice the bandwidth, no 1.9
//   tree  (all-reduce) latency  base + 2((g-1) inner + log2(N) outer);             bandwidth 1/2 0.92 Q corrected(S),
//                  times 1/3.8 under LL, 120/128 under LL128
// Q is P, and 2 P for two nodes: there a tree sends a byte once through a node's adapters, a ring nearly twice.
// `corrected` is a table by powers of two of the size: it is why a larger message can take another way back and forth.
// LL128 is trusted across nodes only where adapters and devices share a switch: here, where the adapter reads the
// devices' memory itself.
#pragma once

#include "hw/network/library_collective.hpp"

namespace orrery::hw {

/// Ranks that communicate: how many, and how many of them lie in a node.
struct RankGroup {
  std::int64_t ranks = 1, in_node = 1;
};

/// How a collective over nodes is carried out.
struct NodePlan {
  bool tree = false;
  LibraryProtocol protocol = LibraryProtocol::simple;
  friend bool operator==(const NodePlan&, const NodePlan&) = default;
};

/// Of `call` (none between pairs) on `bytes` in a group that has more than one node; `planned`: P, bytes/s. Constant
/// time.
NodePlan library_plan(LibraryCall call, const RankGroup& group, double bytes, double planned, bool ll128);

}  // namespace orrery::hw
