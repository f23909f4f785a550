// `training/aceso_runtime_measured_per_rank.csv`: GPT under the plans that Aceso found, iteration by iteration of each
// rank; `training/aceso_run_index.csv` has the plans: GPUs of each stage, and which stages run layers again.
//
// Micro-batches are of one or two sequences, so the GPUs of a stage are ranks of tensor parallelism. How many layers a
// stage has is not recorded: Aceso balances stages, and so do we. Layers that run again do so whole (Aceso chooses op
// by op). The one constant, the speed of kernels beside the part's own, is fitted on the first run of each cluster.
#include <algorithm>
#include <map>
#include <memory>

#include "experiments/fidelity/table_kind.hpp"
#include "experiments/fidelity/training_step.hpp"

namespace orrery::experiments {
namespace aceso_runs {

struct Cluster {
  const char *name, *part;
  double kernel;
};
constexpr Cluster kClusters[] = {{"a100-sxm4-40gb", "a100-sxm4-40gb", 1.17},
                                 {"a100-sxm4-40gb-larger-model", "a100-sxm4-40gb", 1.07},
                                 {"a10g", "a10g", 0.81},
                                 {"l4", "l4", 1.15}};

std::string run_of(const MeasuredTable& table, std::size_t row) {
  return table.text(row, "cluster") + " " + table.text(row, "model") + " " + table.text(row, "stages") + " " +
         table.text(row, "run_id");
}

class AcesoRuns final : public TableKind {
 public:
  std::string_view name() const override { return "training_aceso"; }
  bool reads(std::string_view path) const override { return path == "training/aceso_runtime_measured_per_rank.csv"; }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const MeasuredTable index = MeasuredTable::read(table.root(), "training/aceso_run_index.csv");
    std::map<std::string, std::size_t> plans;
    for (std::size_t row = 0; row < index.rows(); ++row) plans[run_of(index, row)] = row;
    std::map<std::string, std::unique_ptr<StepPredictor>> predictors;
    std::map<std::string, Run> runs;
    std::map<std::string, std::string> first;  // run of each cluster
    out.each_row("iteration", table, [&](std::size_t row) {
      const std::string run = run_of(table, row), &cluster = table.text(row, "cluster");
      const auto known =
          std::find_if(std::begin(kClusters), std::end(kClusters), [&](const Cluster& c) { return cluster == c.name; });
      if (known == std::end(kClusters)) return out.skip("iteration", row, "cluster " + cluster);
      if (!plans.contains(run)) return out.skip("iteration", row, "the plan is not in training/aceso_run_index.csv");
      first.try_emplace(cluster, run);
      if (!runs.contains(run)) {
        std::unique_ptr<StepPredictor>& predictor = predictors[cluster];
        const auto* part = parts.find<hw::GpuParams>(known->part);
        if (part == nullptr) return out.skip("iteration", row, "no part of the catalog is a " + cluster);
        if (!predictor)
          predictor = std::make_unique<StepPredictor>(
              parts, part->part, MeasuredSystem{.nic = "ib-edr-4x", .nics = 1, .in_situ = {.kernel = known->kernel}});
        runs[run] = predicted(*predictor, index, plans[run]);
      }
      if (!runs[run].why.empty()) return out.skip("iteration", row, runs[run].why);
      out.add("iteration", row, table.number(row, "iter_ms"), runs[run].step_s * 1e3,
              {std::string_view(known->name), first[cluster] == run ? "fitted" : "not fitted"});
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override { return run_of(table, row); }

 private:
  /// A run's step, or why it is not covered.
  struct Run {
    double step_s = 0;
    std::string why;
  };

  static Run predicted(StepPredictor& predictor, const MeasuredTable& index, std::size_t row) {
    MeasuredStep step;
    step.model = gpt_graph({.layers = index.count(row, "layers"),
                            .hidden = index.count(row, "hidden"),
                            .heads = index.count(row, "heads"),
                            .sequence = index.count(row, "seq")});
    training::PlanParams& plan = step.plan;
    for (const double gpus : cell_numbers(index.text(row, "gpus_per_stage"), '|'))
      plan.stage_tensor_parallel.push_back(static_cast<std::int64_t>(gpus));
    plan.pipeline_parallel = std::ssize(plan.stage_tensor_parallel);
    plan.data_parallel = 1;
    plan.micro_batch = index.count(row, "micro_batch");
    plan.recompute = training::Recompute::full;
    for (const double again : cell_numbers(index.text(row, "ckpt_per_stage"), '|'))
      plan.stage_recompute_layers.push_back(again != 0 ? 4096 : 0);
    step.gpus = 0;
    for (const std::int64_t gpus : plan.stage_tensor_parallel) step.gpus += gpus;
    step.global_batch = index.count(row, "global_batch");
    step.layers = predictor.balanced_layers(step);
    Run run;
    if (const auto step_run = predictor.predict(step, run.why)) run.step_s = step_run->run.times.time_s;
    return run;
  }
};

}  // namespace aceso_runs

std::unique_ptr<TableKind> training_aceso_tables() {
  return std::make_unique<aceso_runs::AcesoRuns>();
}

}  // namespace orrery::experiments
