// ElasWave: the ranks that are left share micro-batches, layers and clocks anew.
//
// (a) Dataflow: copies of a stage share its micro-batches, ceil(M d / (d - lost)) each, so the global batch stays.
// (b) Graph: layers move between stages such that the slowest stage is as fast as can be under each stage's memory; of
//     such cuts the one that moves the fewest layers, by dynamic programming, O(L^2 S). Kept only where the step gains.
// (c) Frequency: a stage that is slower than the slowest one was raises its clock, up to `boost`.
// Communicators are edited in place. What the paper does for random numbers changes no time and is not simulated.
#include <algorithm>
#include <cmath>
#include <limits>

#include "policies/recovery/recovery.hpp"

namespace orrery::policies {
namespace {

struct ElasticParams {
  bool reshard = true;
  double boost = 1;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("reshard", &ElasticParams::reshard, "Whether layers may move between stages."),
        sim::field("boost", &ElasticParams::boost, sim::Unit::ratio, sim::between(1, 2),
                   "Highest clock relative to the usual one; compute-bound work speeds up as much.")};
  }
};

/// What stage s takes with so many layers, for the micro-batches that its copies share.
double stage_s(const RecoveryStage& stage, double slower, std::int64_t layers) {
  return slower * (static_cast<double>(layers) * stage.layer_s + stage.edge_s);
}

/// Layers of each stage, at least one each: the least slowest stage, then the fewest layers moved. Empty: memory does
/// not hold them.
std::vector<std::int64_t> minimax_cut(const RecoveryView& view, const std::vector<double>& slower) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::int64_t all = 0;
  for (const RecoveryStage& stage : view.stages) all += stage.layers;
  const std::size_t stages = view.stages.size(), width = static_cast<std::size_t>(all) + 1;
  // Twice over the same table: the least bound, then the fewest moves under it.
  const auto solve = [&](auto cost, auto join) {
    std::vector<double> best(width * (stages + 1), kNever);
    std::vector<std::int64_t> taken(width * (stages + 1), 0);
    best[0] = 0;
    for (std::size_t s = 0; s < stages; ++s)
      for (std::int64_t before = 0; before <= all; ++before) {
        const double so_far = best[s * width + static_cast<std::size_t>(before)];
        if (so_far == kNever) continue;
        const std::int64_t most = std::min(all - before, view.stages[s].most_layers);
        for (std::int64_t own = 1; own <= most; ++own) {
          const std::size_t to = (s + 1) * width + static_cast<std::size_t>(before + own);
          const double value = join(so_far, cost(s, own));
          if (value < best[to]) best[to] = value, taken[to] = own;
        }
      }
    std::vector<std::int64_t> layers(stages, 0);
    std::int64_t left = all;
    const double value = best[stages * width + static_cast<std::size_t>(all)];
    for (std::size_t s = stages; s-- > 0 && value < kNever;) {
      layers[s] = taken[(s + 1) * width + static_cast<std::size_t>(left)];
      left -= layers[s];
    }
    return std::pair{value, layers};
  };
  const auto time = [&](std::size_t s, std::int64_t own) { return stage_s(view.stages[s], slower[s], own); };
  const double bound = solve(time, [](double a, double b) { return std::max(a, b); }).first;
  if (bound == kNever) return {};
  const auto moved = [&](std::size_t s, std::int64_t own) {
    return time(s, own) > bound ? kNever : static_cast<double>(std::abs(own - view.stages[s].layers));
  };
  return solve(moved, [](double a, double b) { return a + b; }).second;
}

class Elastic final : public Recovery {
 public:
  explicit Elastic(const ElasticParams& params) : params_(params) {}

  RecoveryDecision decide(const RecoveryView& view) const override {
    std::vector<double> slower;
    bool lost = false;
    for (const RecoveryStage& stage : view.stages) {
      if (stage.lost >= view.copies) return started_anew(view);
      lost = lost || stage.lost > 0;
      slower.push_back(static_cast<double>(shared_micro_batches(view, stage)) /
                       static_cast<double>(view.micro_batches));
    }
    if (!view.state_survives) return started_anew(view);
    RecoveryDecision decision{
        .step_s = view.step_s, .communicators = Communicators::edited, .layers = planned_layers(view)};
    if (!lost) return decision;
    decision = with_clocks(view, slower, decision);
    if (!params_.reshard) return decision;
    RecoveryDecision moved = decision;
    moved.layers = minimax_cut(view, slower);
    if (moved.layers.empty()) return decision;
    moved = with_clocks(view, slower, moved);
    return moved.step_s < decision.step_s ? moved : decision;
  }

 private:
  RecoveryDecision with_clocks(const RecoveryView& view, const std::vector<double>& slower,
                               RecoveryDecision decision) const {
    double target = 0;
    for (const RecoveryStage& stage : view.stages) target = std::max(target, stage.pass_s());
    std::vector<double> now = slower;
    decision.clock = 1;
    for (std::size_t s = 0; s < now.size(); ++s) {
      const double over = stage_s(view.stages[s], slower[s], decision.layers[s]) / target;
      const double clock = std::clamp(over, 1.0, params_.boost);
      decision.clock = std::max(decision.clock, clock);
      now[s] /= clock;
    }
    decision.step_s = view.step_with(now, decision.layers);
    return decision;
  }

  ElasticParams params_;
};

}  // namespace

void add_elastic_recovery(RecoveryRegistry& registry) {
  registry.add<ElasticParams>("elastic",
                              "ElasWave: micro-batches, layers and clocks are redistributed among the remaining ranks.",
                              [](const ElasticParams& params) { return std::make_unique<Elastic>(params); });
}

}  // namespace orrery::policies
