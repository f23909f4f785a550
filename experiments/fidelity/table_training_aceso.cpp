// `training/aceso_runtime_measured_per_rank.csv`: GPT under the plans that Aceso found, iteration by iteration of each
// rank; `training/aceso_run_index.csv` has the plans: GPUs of each stage, and which stages run layers again.
//
// Micro-batches are of one or two sequences, so the GPUs of a stage are ranks of tensor parallelism. How many layers a
// stage has is not recorded, nor how many of its ops run again: Aceso balances stages and recomputes what does not fit,
// and so do we, layer by layer (Aceso chooses op by op). Messages between nodes are as fast as the same clusters'
// measured ones, `training/aceso_p2p_measured.csv`. The one constant, the speed of kernels beside the part's own, is
// fitted on the first run of each cluster.
#include <algorithm>
#include <cmath>
#include <filesystem>
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
constexpr Cluster kClusters[] = {{"a100-sxm4-40gb", "a100-sxm4-40gb", 1.1},
                                 {"a100-sxm4-40gb-larger-model", "a100-sxm4-40gb", 1.05},
                                 {"a10g", "a10g", 0.83},
                                 {"l4", "l4", 1.11}};

/// A node's network, 100 Gbit/s in these clouds (a2, g2 and g5 of eight GPUs), to the nearest whole number of messages
/// at that rate: 5 % more on L4, 15 % on A100.
constexpr double kNodeNetwork = 12.5e9;

/// Bytes/s of large messages between devices of two nodes, one pair at a time, by cluster.
using MessageRates = std::map<std::string, double>;
MessageRates message_rates(const std::filesystem::path& root) {
  MessageRates rates;
  const MeasuredTable table = MeasuredTable::read(root, "training/aceso_p2p_measured.csv");
  std::map<std::string, int> count;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const double megabytes = table.positive(row, "data_size_MB");
    const double rate = table.positive(row, "bandwidth_GBps(MiB/1024/s)");
    // A cell that repeats the size: that measurement failed.
    if (table.text(row, "scope") != "inter_node" || megabytes < 64 || rate >= megabytes) continue;
    const std::string& cluster = table.text(row, "cluster");
    const int before = count[cluster]++;
    rates[cluster] = (rates[cluster] * before + rate * 1024 * 1024 * 1024) / (before + 1);
  }
  return rates;
}

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
    const MessageRates rates = message_rates(table.root());
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
        if (!predictor) {
          MeasuredSystem system{.nic = "ib-edr-4x", .nics = 1, .in_situ = {.kernel = known->kernel}};
          if (const auto rate = rates.find(cluster); rate != rates.end()) {
            system.network_message = rate->second;
            system.nics = std::max<std::int64_t>(1, std::llround(kNodeNetwork / rate->second));
          }
          predictor = std::make_unique<StepPredictor>(parts, part->part, system);
        }
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
    // Megatron-LM of that time fuses softmaxes of up to 2,048 keys.
    step.model = gpt_graph({.layers = index.count(row, "layers"),
                            .hidden = index.count(row, "hidden"),
                            .heads = index.count(row, "heads"),
                            .sequence = index.count(row, "seq"),
                            .fused_softmax = index.count(row, "seq") <= 2048});
    training::PlanParams& plan = step.plan;
    for (const double gpus : cell_numbers(index.text(row, "gpus_per_stage"), '|'))
      plan.stage_tensor_parallel.push_back(static_cast<std::int64_t>(gpus));
    plan.pipeline_parallel = std::ssize(plan.stage_tensor_parallel);
    plan.data_parallel = 1;
    plan.micro_batch = index.count(row, "micro_batch");
    plan.recompute = training::Recompute::full;
    step.gpus = 0;
    for (const std::int64_t gpus : plan.stage_tensor_parallel) step.gpus += gpus;
    step.global_batch = index.count(row, "global_batch");
    Run run;
    const auto division = predictor.balanced(step);
    if (!division) {
      run.why = "no division of its layers fits";
      return run;
    }
    step.layers = division->layers;
    plan.stage_recompute_layers = division->again;
    if (const auto step_run = predictor.predict(step, run.why)) run.step_s = step_run->run.times.time_s;
    return run;
  }
};

}  // namespace aceso_runs

std::unique_ptr<TableKind> training_aceso_tables() {
  return std::make_unique<aceso_runs::AcesoRuns>();
}

}  // namespace orrery::experiments
