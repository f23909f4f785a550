// `training/vtrain_iterations.csv`: iterations of GPT under Megatron-LM on nodes of eight A100 (vTrain, MICRO 2024).
//
// Rows of one node run without recomputation, rows of several nodes recompute whole layers: with the other choice the
// errors of either are three times as large, so the rows themselves say which. Constants that belong to the measured
// systems and not to the part, fitted on every fifth row (rows 0, 5, 10 …): on one node the speed of kernels and of
// collectives beside the part's own, and what an op of the forward and of the backward pass takes its host; on several
// nodes, where batches are large and no host is waited for, the two speeds.
#include "experiments/fidelity/table_kind.hpp"
#include "experiments/fidelity/training_step.hpp"

namespace orrery::experiments {
namespace vtrain_table {

MeasuredSystem one_node() {
  return {.host = {.operator_s = 145e-6, .view_s = 2e-6, .backward_s = 51e-6},
          .in_situ = {.kernel = 0.76, .collective = 0.7}};
}
MeasuredSystem several_nodes() {
  return {.nics = 4, .in_situ = {.kernel = 1.1, .collective = 0.8}};
}

MeasuredStep step_of(const MeasuredTable& table, std::size_t row, bool several) {
  MeasuredStep step;
  step.plan.tensor_parallel = table.count(row, "tp");
  step.plan.pipeline_parallel = table.count(row, "pp");
  step.plan.data_parallel = table.count(row, "dp");
  step.plan.micro_batch = table.count(row, "mbatch");
  step.plan.overlap_gradients = false;
  if (several) step.plan.recompute = training::Recompute::full;
  // Megatron-LM's kernel of scale, mask and softmax wants a multiple of four matrices of scores.
  const std::int64_t heads = table.count(row, "heads");
  step.model = gpt_graph({.layers = table.count(row, "layers"),
                          .hidden = table.count(row, "hidden"),
                          .heads = heads,
                          .sequence = table.count(row, "seq"),
                          .fused_softmax = heads / step.plan.tensor_parallel * step.plan.micro_batch % 4 == 0});
  step.gpus = table.count(row, "gpus");
  step.global_batch = table.count(row, "gbatch");
  return step;
}

class VtrainTables final : public TableKind {
 public:
  std::string_view name() const override { return "training_vtrain"; }
  bool reads(std::string_view path) const override { return path == "training/vtrain_iterations.csv"; }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const auto found = parts.for_table<hw::GpuParams>(table.stem());
    if (!found) return out.skip_all("iteration", table, "no part of the catalog stands for it");
    StepPredictor node(parts, found.entry->part, one_node()), cluster(parts, found.entry->part, several_nodes());
    out.each_row("iteration", table, [&](std::size_t row) {
      const bool several = table.text(row, "set") == "multi";
      std::string why;
      const auto predicted = (several ? cluster : node).predict(step_of(table, row, several), why);
      if (!predicted) return out.skip("iteration", row, why);
      out.add("iteration", row, table.number(row, "measured_ms"), predicted->run.times.time_s * 1e3,
              {several ? "several nodes" : "one node", row % 5 == 0 ? "fitted" : "not fitted"});
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "hidden") + "x" + table.text(row, "layers") + "x" + table.text(row, "gpus");
  }
};

}  // namespace vtrain_table

std::unique_ptr<TableKind> training_vtrain_tables() {
  return std::make_unique<vtrain_table::VtrainTables>();
}

}  // namespace orrery::experiments
