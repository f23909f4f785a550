// How long a collective takes where nothing contends: formulas in place of millions of messages.
//
//   a message of b bytes takes alpha + b / bandwidth, alpha being the latency of its path and the overhead of a
//   message.
//
// n ranks, S bytes, c = alpha + (bytes of a chunk) / bandwidth, all ranks entering at once:
//   ring               all_reduce 2(n-1) C c, all_gather and reduce_scatter (n-1) C c, with C chunks a channel;
//                      broadcast (n-2+C) c
//   double_tree        (2h + C - 1) c, broadcast (h + C - 1) c, h being the height of the trees
//   halving_doubling   powers of two: 2 log2(n) alpha + 2 (n-1)/n S/bandwidth; others: the recurrence behind that
//   direct             alpha + the largest message, all_reduce twice; times ceil((n-1)/window) in a window
//   hierarchical       its three parts one after the other (nodes of one size)
//   in_network         (2h + C - 1) c all_reduce; broadcast from a leaf of depth h the same
// Where shards or chunks differ by a byte the largest stands for all: at most a byte's time a step too long.
// Tests hold every value to the chunk simulation. Sources: those of the algorithms; docs/explain/collectives.md derives
// them.
//
// These are for messages that do not meet. `collective_on` asks a topology and a routing whether that is so.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "hw/network/collective.hpp"
#include "hw/network/collective_parts.hpp"

namespace orrery::hw {

/// Cost of a message between two ranks.
struct AlphaBeta {
  double alpha_s = 0;
  double bandwidth = 1;  ///< bytes/s
  double seconds(std::int64_t bytes) const { return alpha_s + static_cast<double>(bytes) / bandwidth; }
};

struct HalvingDoublingParams {
  static constexpr auto fields() { return sim::FieldTable<HalvingDoublingParams, 0>(); }
};

/// An algorithm and its parameters, as a value.
using CollectiveAlgorithm = std::variant<RingParams, DoubleTreeParams, HalvingDoublingParams, DirectParams,
                                         HierarchicalParams, InNetworkParams>;

/// Seconds from the entry of all ranks to the last one's end; `inside` holds between ranks of a node and `across`
/// between nodes, which only hierarchical tells apart (the others use `across`). Nothing where there is no formula:
/// hierarchical over nodes of different sizes, all_to_all in it, or over levels whose ranks do not end together;
/// in_network but for all_reduce and broadcast over a tree whose ranks are equally deep; direct in a window with sizes
/// given by pair, fewer bytes than ranks, or (but for broadcast and all_gather) in plain order; a ring of shards so
/// small that some have fewer chunks than others. One rank or no bytes take no time. Throws ConfigError for a spec that
/// the algorithm cannot do. Constant time but for double_tree, in_network (linear) and halving_doubling (n log n).
std::optional<double> collective_seconds(const CollectiveAlgorithm& algorithm, const CollectiveSpec& spec,
                                         const AlphaBeta& inside, const AlphaBeta& across);
inline std::optional<double> collective_seconds(const CollectiveAlgorithm& algorithm, const CollectiveSpec& spec,
                                                const AlphaBeta& cost) {
  return collective_seconds(algorithm, spec, cost, cost);
}

/// The same on a topology: checks that the messages that are under way at a time share no link, or (where all ranks go
/// in step: direct, halving_doubling among a power of two, ring but for broadcast, and levels of these) share links so
/// that all get the same part; and that all paths are alike; then the formula with that part and latency. `nodes` are
/// those of all members (ranks, then switches), `overhead_s` is added to every message, channel c takes the path of
/// `label` + c. Nothing where that is not so, for shards or pairs of given sizes, for fewer bytes than pieces, and for
/// the broadcast of hierarchical, whose nodes do not go in step: then simulate. Looks at each connection once.
std::optional<double> collective_on(const CollectiveAlgorithm& algorithm, const CollectiveSpec& spec,
                                    const std::vector<NodeIndex>& nodes, const Topology& topology, Routing& routing,
                                    double overhead_s = 0, std::uint64_t label = 0);

/// What no algorithm can beat where a rank sends and receives one message at a time and nothing but ranks adds up:
/// the larger of the bytes that some rank must send or receive, and ceil(log2 n) messages one after the other
/// (send_recv: one). Chan, Heimlich, Purkayastha and van de Geijn, "Collective communication: theory, practice, and
/// experience", 2007; Patarasu and Yuan 2009. Even shards and pairs are assumed.
double collective_lower_bound(const CollectiveSpec& spec, const AlphaBeta& cost);

}  // namespace orrery::hw
