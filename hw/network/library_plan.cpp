#include "hw/network/library_plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

namespace orrery::hw {
namespace {

/// The library's latencies of one protocol, s: of a call, of a step inside a node and of one between nodes. Inside a
/// node those of links between devices.
struct Latency {
  double base_s, inner_s, outer_s;
};
struct ProtocolEstimate {
  LibraryProtocol protocol;
  Latency ring, tree;
  double ring_share, tree_share;          ///< of the path's bandwidth
  std::array<double, 23> tree_corrected;  ///< by powers of two of the size, from 64 bytes
};
constexpr std::array<ProtocolEstimate, 3> kProtocols{
    {{LibraryProtocol::ll, {6.6e-6, 1.08e-6, 2.7e-6}, {6.8e-6, 1.08e-6, 5e-6}, 1 / 4.0, 1 / 3.8, {1,  1,  1,  1,  .9,
                                                                                                  .8, .7, .7, .7, .7,
                                                                                                  .6, .5, .4, .4, .5,
                                                                                                  .6, .7, .8, .9, 1,
                                                                                                  1,  1,  1}},
     {LibraryProtocol::ll128, {14e-6, 1.9e-6, 4e-6}, {14e-6, 1.25e-6, 8.5e-6}, 0.92, 120.0 / 128, {1,  1,   1,  1,  1,
                                                                                                   .9, .8,  .8, .8, .7,
                                                                                                   .6, .6,  .6, .6, .6,
                                                                                                   .6, .8,  .9, .9, .9,
                                                                                                   .9, .92, .95}},
     {LibraryProtocol::simple, {8.4e-6, 3.4e-6, 14e-6}, {0, 28e-6, 28e-6}, 1, 1, {.9, .9, .9, .9, .9, .9, .9, .8,
                                                                                  .7, .6, .6, .5, .5, .5, .5, .6,
                                                                                  .7, .8, .7, .7, .8, .9, .9}}}};
constexpr double kTreeShare = 0.92, kLoneRankLl128 = 0.7, kSimplePlateau = 1.9;
/// Bandwidth with which it reckons at most for LL between two nodes, and between more.
constexpr double kLlTwoNodes = 22.5e9, kLlNodes = 19e9;

double corrected(const ProtocolEstimate& estimate, double bytes) {
  const double power = std::floor(std::log2(std::max(1.0, bytes / 64)));
  const auto at = static_cast<std::size_t>(power);
  return at < estimate.tree_corrected.size() ? estimate.tree_corrected[at] : 1;
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
  for (const ProtocolEstimate& estimate : kProtocols) {
    const bool ll = estimate.protocol == LibraryProtocol::ll, simple = estimate.protocol == LibraryProtocol::simple;
    if (estimate.protocol == LibraryProtocol::ll128 && !ll128) continue;
    const auto take = [&](bool tree, double latency, double bandwidth) {
      const double t = latency + bytes / bandwidth;
      if (t >= least) return;
      least = t;
      best = {tree, estimate.protocol};
    };
    double ring = planned * estimate.ring_share;
    if (estimate.protocol == LibraryProtocol::ll128 && inside < 2) ring = planned * kLoneRankLl128;
    if (ll) ring = std::min(ring, ll_most);
    const double steps = passes * ((ranks - nodes) * estimate.ring.inner_s + (nodes - 1) * estimate.ring.outer_s);
    const double plateau = simple && all_reduce ? kSimplePlateau : 1;
    take(false, estimate.ring.base_s + plateau * steps, ring * ranks / (passes * (ranks - 1)));
    if (!all_reduce) continue;
    double tree = kTreeShare * planned * (nodes <= 2 ? 2 : 1) * estimate.tree_share;
    if (ll) tree = std::min(tree, ll_most);
    take(true,
         estimate.tree.base_s + 2 * ((inside - 1) * estimate.tree.inner_s + std::log2(nodes) * estimate.tree.outer_s),
         tree / 2 * corrected(estimate, bytes));
  }
  return best;
}

}  // namespace orrery::hw
