// Every plan for a model on a machine, by closed form; the best of them run event by event.
//
// The space: tensor parallelism over divisors of the devices that a node holds and heads allow, pipelines over divisors
// of the rest up to the layers, data parallelism the rest of it; expert parallelism over divisors of the experts;
// micro-batches that divide a copy's share of the batch; chunks that divide a stage's layers; sequence parallelism,
// recomputation and ZeRO as listed. A plan's time is closed_form()'s, its memory the stages' with what 1F1B or its
// interleaved form keeps at most. Plans that do not fit are counted by reason. The best are run, and ranked by that.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/training/plan_score.hpp"
#include "experiments/systems/training/run.hpp"

namespace orrery::experiments::training {

/// Whether stages are alike, or also differ in layers and in what runs again.
enum class PlanStages : std::uint8_t { alike, apart };
constexpr auto enum_names(PlanStages) {
  using enum PlanStages;
  return sim::names<PlanStages>({{"alike", alike}, {"apart", apart}});
}

/// Section `plans`: lists that span the space; an empty list is everything, of shares in the host's memory the plan's
/// own. What of OffloadParams is by stage in a plan are here shares to try.
struct PlannerParams : OffloadParams {
  std::vector<std::int64_t> devices, tensor_parallel, context_parallel, pipeline_parallel, expert_parallel, micro_batch,
      interleave;
  std::vector<Recompute> recompute;
  std::vector<Zero> zero;
  PlanStages stages = PlanStages::alike;
  PlanRank rank = PlanRank::time;
  std::string explain;
  std::int64_t show = 10, run = 20;

  static constexpr auto fields() {
    using sim::Unit;
    using P = PlannerParams;
    using List = std::vector<double> P::*;  // the base's member as this struct's
    constexpr sim::Range kSize = sim::between(1, 1 << 20);
    return sim::FieldTable{
        sim::field("devices", &P::devices, Unit::count, kSize,
                   "Numbers of devices to try, up to those of the machine; empty: all of the machine's."),
        sim::field("tensor_parallel", &P::tensor_parallel, Unit::count, kSize,
                   "Degrees of tensor parallelism to try; empty: all that fit in a node."),
        sim::field("context_parallel", &P::context_parallel, Unit::count, kSize,
                   "Degrees of context parallelism to try; empty: 1."),
        sim::field("pipeline_parallel", &P::pipeline_parallel, Unit::count, kSize,
                   "Numbers of pipeline stages to try; empty: all."),
        sim::field(
            "expert_parallel", &P::expert_parallel, Unit::count, kSize,
            "Degrees of expert parallelism to try; empty: all that divide the experts and the ranks of a stage."),
        sim::field("micro_batch", &P::micro_batch, Unit::count, kSize,
                   "Micro-batch sizes to try; empty: all up to 64."),
        sim::field("interleave", &P::interleave, Unit::count, kSize, "Chunks per stage to try; empty: all up to 8."),
        sim::field("recompute", &P::recompute,
                   "Kinds of recomputation to try; empty: none, selective and full (by_op only if listed)."),
        sim::field("zero", &P::zero, "ZeRO stages to try; empty: all."),
        sim::field("offload_weights", List(&P::offload_weights), Unit::ratio, sim::between(0, 1),
                   "Shares of weights in host memory to try; empty: only that of the plan."),
        sim::field("offload_gradients", List(&P::offload_gradients), Unit::ratio, sim::between(0, 1),
                   "Shares of gradients in host memory to try; empty: only that of the plan."),
        sim::field("offload_optimizer", List(&P::offload_optimizer), Unit::ratio, sim::between(0, 1),
                   "Shares of optimizer states in host memory to try; empty: only that of the plan."),
        sim::field("offload_activations", List(&P::offload_activations), Unit::ratio, sim::between(0, 1),
                   "Shares of layer activations in host memory to try; empty: only that of the plan."),
        sim::field("stages", &P::stages,
                   "`alike`: even stages of one kind. `apart`: also stages that differ in layers, in how many of "
                   "them are recomputed and in what they keep in host memory, divided exactly (without chunks)."),
        sim::field("rank", &P::rank,
                   "How plans are ranked. `time`: shortest step. `memory`: most headroom. `energy`: fewest joules per "
                   "step. `cost`: fewest device hours per step."),
        sim::field("explain", &P::explain, Unit::text, sim::any_value(),
                   "A plan as printed in the table (\"8 8x3 1 1 yes selective none\"), to show what it gives up "
                   "against the best; empty: none."),
        sim::field("show", &P::show, Unit::count, sim::between(1, 1000), "Number of plans listed."),
        sim::field("run", &P::run, Unit::count, sim::between(1, 10'000),
                   "Number of best plans that are simulated event by event."),
    };
  }
};

/// A plan that somebody asks about.
struct ExplainedPlan {
  ScoredPlan plan;
  std::string reason;  ///< why it cannot be; empty: it can
};

struct PlannerResult {
  std::int64_t layers = 0;                                     ///< of the model
  std::int64_t evaluated = 0;                                  ///< plans whose time and memory were worked out
  std::map<std::string, std::int64_t> left_out;                ///< plans that cannot be, by reason
  std::vector<ScoredPlan> best;                                ///< in order
  std::vector<std::pair<std::string, ScoredPlan>> kinds;       ///< the best that does without something, in closed form
  std::vector<std::pair<std::string, ScoredPlan>> objectives;  ///< the best by each objective, in closed form
  std::map<std::string, ScoredPlan> nearest;  ///< of plans that cannot be, by reason, the one nearest to fit
  std::optional<ExplainedPlan> explained;
};

/// `progress` is told of plans that were scored, and of those that were run; what it throws ends the search.
PlannerResult find_plans(const TrainingConfig& config, const PlannerParams& params, const sim::RegistrySet& registries,
                         const std::function<void(const Progress&)>& progress = {});

}  // namespace orrery::experiments::training
