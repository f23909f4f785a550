// Loop fusion: producers and consumers that run over the same elements become one kernel.
//
// Decides: pointwise units join pointwise producers and consumers; a reduction ends its group (or may be followed by
// passes over the same elements, `past_reductions`); a product takes the pointwise units after it as its epilogue. All
// of a group share one loop (policies/fusion/loops.hpp), phase, target and dialect, so nothing is computed twice.
// Greedy: pairs are tried from the largest saving down (bytes that need not be written and read again at the device's
// bandwidth, and a launch), until no pair is left; groups stay convex by incremental reachability (merged_groups.hpp).
// With a device, a group that would be slower than its members is taken apart again. Near-linear in ops; ties by order.
// After XLA's and TVM's fusers. Left out: recomputation of cheap producers, register pressure beyond `max_ops`.
#include <algorithm>

#include "policies/base/graph_pass.hpp"
#include "policies/fusion/finish.hpp"
#include "policies/fusion/launch_graph.hpp"
#include "policies/fusion/loops.hpp"
#include "policies/fusion/merged_groups.hpp"
#include "policies/fusion/place.hpp"
#include "policies/fusion/prices.hpp"

namespace orrery::policies {
namespace {

using models::OpGraph;

struct LoopFusionParams {
  bool epilogues = true;
  bool past_reductions = false;
  std::int64_t max_ops = 64;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("epilogues", &LoopFusionParams::epilogues,
                   "Whether the kernel of a matrix product includes the elementwise ops after it."),
        sim::field("past_reductions", &LoopFusionParams::past_reductions,
                   "Whether a group may continue after a reduction that keeps its elements (softmax, norms)."),
        sim::field("max_ops", &LoopFusionParams::max_ops, sim::Unit::none, sim::at_least(1), "Most ops in a group.")};
  }
};

class LoopFuser {
 public:
  LoopFuser(const OpGraph& graph, const LoopFusionParams& params, const PassContext& context)
      : graph_(graph),
        params_(params),
        prices_(context),
        launches_(launch_graph(graph)),
        domains_(graph, nullptr),
        loops_(loops_of(graph, launches_, domains_)),
        bytes_(tensor_bytes(graph, context.typical)),
        merged_(launches_.size(), pairs(launches_)) {
    products_.assign(launches_.size(), 0);
    rows_.assign(launches_.size(), -1);
    for (std::size_t unit = 0; unit < launches_.size(); ++unit) {
      products_[unit] = loops_[unit].role == LoopRole::product ? 1 : 0;
      rows_[unit] = loops_[unit].rows;
    }
  }

  UnitGroups run() {
    std::vector<std::int32_t> candidates;
    for (std::size_t i = 0; i < launches_.edges.size(); ++i)
      if (may_share(launches_.edges[i])) candidates.push_back(static_cast<std::int32_t>(i));
    std::vector<double> saving(launches_.edges.size(), 0);
    for (const std::int32_t i : candidates) saving[at(i)] = saving_s(launches_.edges[at(i)]);
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](std::int32_t a, std::int32_t b) { return saving[at(a)] > saving[at(b)]; });
    // A pair that a third group stands between may be free once that group is part of one of the two.
    for (bool again = true; again;) {
      again = false;
      for (const std::int32_t i : candidates) again |= try_merge(launches_.edges[at(i)]);
    }
    return merged_.groups();
  }
  const LaunchGraph& launches() const { return launches_; }

 private:
  static std::vector<std::pair<std::int32_t, std::int32_t>> pairs(const LaunchGraph& launches) {
    std::vector<std::pair<std::int32_t, std::int32_t>> all;
    all.reserve(launches.edges.size());
    for (const LaunchEdge& edge : launches.edges) all.emplace_back(edge.from, edge.to);
    return all;
  }

  /// Whether consumer and producer of an edge can be in one kernel.
  bool may_share(const LaunchEdge& edge) {
    const Loop &from = loops_[at(edge.from)], &to = loops_[at(edge.to)];
    if (from.role == LoopRole::none || (to.role != LoopRole::pointwise && to.role != LoopRole::row)) return false;
    if (from.domain != to.domain || !edge.plain || domains_.of(edge.read) != to.domain) return false;
    if (from.role == LoopRole::row && (!params_.past_reductions || from.made != from.domain)) return false;
    if (from.role == LoopRole::product && (!params_.epilogues || to.role == LoopRole::row)) return false;
    return same_place(graph_.op(launches_.ops[at(edge.from)]), graph_.op(launches_.ops[at(edge.to)]));
  }

  /// What is saved where only these two merge: a read, a write if nobody else reads it, and a launch.
  double saving_s(const LaunchEdge& edge) const {
    const bool stays = graph_.is_output(edge.made) || launches_.out[at(edge.from)].size() > 1;
    return static_cast<double>(bytes_[index(edge.read)]) * prices_.byte_s * (stays ? 1 : 2) + prices_.launch_s;
  }

  bool try_merge(const LaunchEdge& edge) {
    const std::int32_t a = merged_.find(edge.from), b = merged_.find(edge.to);
    if (a == b) return false;
    if (products_[at(a)] + products_[at(b)] > 1) return false;
    const std::int32_t products = products_[at(a)] + products_[at(b)], rows = std::max(rows_[at(a)], rows_[at(b)]);
    if (products > 0 && rows >= 0) return false;
    if (rows_[at(a)] >= 0 && rows_[at(b)] >= 0 && rows_[at(a)] != rows_[at(b)]) return false;
    const std::size_t ops = merged_.members(a).size() + merged_.members(b).size();
    if (ops > static_cast<std::size_t>(params_.max_ops) || !all_may_share(a, b)) return false;
    if (!merged_.merge(a, b)) return false;
    products_[at(merged_.find(a))] = products;
    rows_[at(merged_.find(a))] = rows;
    return true;
  }

  /// Every edge between two groups must be one that can stay inside a kernel.
  bool all_may_share(std::int32_t a, std::int32_t b) {
    if (merged_.members(a).size() > merged_.members(b).size()) std::swap(a, b);
    for (const std::int32_t unit : merged_.members(a)) {
      for (const LaunchEdge& edge : launches_.in(at(unit)))
        if (merged_.find(edge.from) == b && !may_share(edge)) return false;
      for (const std::int32_t i : launches_.out[at(unit)])
        if (merged_.find(launches_.edges[at(i)].to) == b && !may_share(launches_.edges[at(i)])) return false;
    }
    return true;
  }

  const OpGraph& graph_;
  const LoopFusionParams& params_;
  FusionPrices prices_;
  LaunchGraph launches_;
  Domains domains_;
  std::vector<Loop> loops_;
  std::vector<std::int64_t> bytes_;
  MergedGroups merged_;
  std::vector<std::int32_t> products_, rows_;  ///< of each group: how many products; rows of its row units, or -1
};

class LoopFusion final : public GraphPass {
 public:
  explicit LoopFusion(const LoopFusionParams& params) : params_(params) {}

  OpGraph run(const OpGraph& graph, const PassContext& context, PassReport& report) const override {
    LoopFuser fuser(graph, params_, context);
    return finish_groups(graph, fuser.launches(), fuser.run(), context, report);
  }

 private:
  LoopFusionParams params_;
};

}  // namespace

void add_loop_fusion(PassRegistry& registry) {
  registry.add<LoopFusionParams>(
      "loop_fusion", "Producers and consumers over the same elements become one kernel, the largest saving first.",
      [](const LoopFusionParams& params) { return std::make_unique<LoopFusion>(params); });
}

}  // namespace orrery::policies
