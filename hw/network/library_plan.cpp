#include "hw/network/library_plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "hw/network/library_estimates.hpp"

namespace orrery::hw {
namespace {

/// A tree under a protocol, s: of a call, of a step between devices of a node and of one between nodes.
struct TreeEstimate {
  double base_s, inner_s, outer_s, share;  ///< share of the path's bandwidth
  std::array<double, 23> corrected;        ///< by powers of two of the size, from 64 bytes
};
constexpr double kLlSlower = 1.8;  ///< steps of LL inside a node, where there are several
constexpr std::array<double, 23> kLlTrees{1,  1,  1,  1,  .9, .8, .7, .7, .7, .7, .6, .5,
                                          .4, .4, .5, .6, .7, .8, .9, 1,  1,  1,  1};
constexpr std::array<double, 23> kLl128Trees{1,  1,  1,  1,  1,  .9, .8, .8, .8, .7,  .6, .6,
                                             .6, .6, .6, .6, .8, .9, .9, .9, .9, .92, .95};
constexpr std::array<double, 23> kSimpleTrees{.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
                                              .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9};
/// In the order of kRingEstimates.
constexpr std::array<TreeEstimate, 3> kTreeEstimates{{{6.8e-6, 0.6e-6, 5e-6, 1 / 3.8, kLlTrees},
                                                      {14e-6, 1.25e-6, 8.5e-6, kLl128Payload, kLl128Trees},
                                                      {0, kTreeChunk_s, 28e-6, 1, kSimpleTrees}}};
constexpr double kTreeShare = 0.92, kLoneRankLl128 = 0.7, kSimplePlateau = 1.9;
/// Bandwidth with which it reckons at most for LL between two nodes, and between more.
constexpr double kLlTwoNodes = 22.5e9, kLlNodes = 19e9;

double corrected(const TreeEstimate& estimate, double bytes) {
  const double power = std::floor(std::log2(std::max(1.0, bytes / 64)));
  const auto at = static_cast<std::size_t>(power);
  return at < estimate.corrected.size() ? estimate.corrected[at] : 1;
}

/// Share of the path's bandwidth that a ring reaches.
double ring_share(LibraryProtocol protocol, bool lone_ranks) {
  if (protocol == LibraryProtocol::ll) return 1 / 4.0;
  if (protocol == LibraryProtocol::ll128) return lone_ranks ? kLoneRankLl128 : kLl128Share;
  return 1;
}

}  // namespace

NodePlan library_plan(LibraryCall call, const RankGroup& group, double bytes, double planned, bool ll128) {
  const bool all_reduce = call == LibraryCall::all_reduce;
  const double passes = all_reduce ? 2 : 1;
  const double ranks = static_cast<double>(group.ranks), inside = static_cast<double>(group.in_node);
  const double nodes = std::ceil(ranks / inside);
  const double ll_most = nodes <= 2 ? kLlTwoNodes : kLlNodes;
  NodePlan best;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < kRingEstimates.size(); ++i) {
    const RingEstimate& ring = kRingEstimates[i];
    const TreeEstimate& tree = kTreeEstimates[i];
    const bool ll = ring.protocol == LibraryProtocol::ll, simple = ring.protocol == LibraryProtocol::simple;
    if (ring.protocol == LibraryProtocol::ll128 && !ll128) continue;
    const double slower = ll ? kLlSlower : 1, most = ll ? ll_most : std::numeric_limits<double>::infinity();
    const auto take = [&](bool is_tree, double latency, double bandwidth) {
      const double t = latency + bytes / bandwidth;
      if (t >= least) return;
      least = t;
      best = {is_tree, ring.protocol};
    };
    const double steps = passes * ((ranks - nodes) * slower * ring.inner_s + (nodes - 1) * ring.outer_s);
    const double plateau = simple && all_reduce ? kSimplePlateau : 1;
    const double around = std::min(planned * ring_share(ring.protocol, inside < 2), most);
    take(false, ring.base_s + plateau * steps, around * ranks / (passes * (ranks - 1)));
    if (!all_reduce) continue;
    const double up = std::min(kTreeShare * planned * (nodes <= 2 ? 2 : 1) * tree.share, most);
    take(true, tree.base_s + 2 * ((inside - 1) * slower * tree.inner_s + std::log2(nodes) * tree.outer_s),
         up / 2 * corrected(tree, bytes));
  }
  return best;
}

}  // namespace orrery::hw
