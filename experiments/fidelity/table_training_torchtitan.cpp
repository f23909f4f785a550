// `training/torchtitan_llama3.csv`: Llama 3.1 under torchtitan's FSDP, tensor, context and pipeline parallelism, on
// H100 of 96 GB and H200.
//
// Without gradient accumulation a step is one micro-batch of the local batch, but for pipelines, whose micro-batches
// are of one sequence. Selective recomputation is torchtitan's by op. `compile` fuses passes over memory; until 2025
// the loss is eager and in fp32. Products in fp8 have scales of tensors, those of rows apart. Two constants, fitted on
// the first row of each model: the speed of kernels beside the part's own (a board of 500 W that works on end), and
// that of attention beside what PyTorch's FlashAttention-2 took alone on an H100 of 700 W (experiments/measured). Peak
// memory is the second metric: nothing of it is fitted. The table has what the allocator reserved, we what is
// allocated.
#include <map>
#include <memory>
#include <set>

#include "experiments/fidelity/table_kind.hpp"
#include "experiments/fidelity/training_step.hpp"

namespace orrery::experiments {
namespace torchtitan_table {

MeasuredSystem system_of() {
  return {.nic = "ib-ndr-4x", .in_situ = {.kernel = 0.88, .attention = 0.6}, .attention = hw::AttentionLibrary::flash2};
}

std::optional<sim::Node> fp8_params(const std::string& precision) {
  if (precision == "bf16") return std::nullopt;
  sim::Node params = sim::Node::object();
  // Weights are gathered in fp8 with one scale a tensor; with scales of rows they come in bf16.
  const bool rows = precision == "fp8-rowwise";
  params.set("weights", sim::Node::string(rows ? "cast" : "kept"));
  params.set("scaling", sim::Node::string(rows ? "row" : "tensor"));
  return params;
}

/// "llama3.1-8b" is the catalog's llama-3.1-8b.
std::string catalog_name(std::string model) {
  if (model.starts_with("llama3")) model.insert(5, "-");
  return model;
}

training::Recompute recompute_of(const std::string& text) {
  if (text == "full") return training::Recompute::full;
  return text.find("selective") != std::string::npos ? training::Recompute::by_op : training::Recompute::none;
}

MeasuredStep step_of(const MeasuredTable& table, std::size_t row) {
  MeasuredStep step;
  step.model = decoder_graph({.config = catalog_name(table.text(row, "model")),
                              .sequence = table.count(row, "seq"),
                              .compiled = table.text(row, "compile") == "1",
                              .min_cut = table.text(row, "compile") == "1",
                              .eager_loss = table.text(row, "source").find("202412") != std::string::npos,
                              .fp8 = fp8_params(table.text(row, "precision"))});
  training::PlanParams& plan = step.plan;
  plan.tensor_parallel = table.count(row, "tp");
  plan.sequence_parallel = plan.tensor_parallel > 1;
  plan.async_tensor_parallel = table.text(row, "async_tp") == "1";
  plan.context_parallel = table.count(row, "cp");
  plan.context_exchange = training::ContextExchange::all_gather;
  plan.pipeline_parallel = table.count(row, "pp");
  plan.data_parallel = table.count(row, "fsdp");
  plan.micro_batch = plan.pipeline_parallel > 1 ? 1 : table.count(row, "local_batch");
  // A pipeline keeps weights gathered for the step: it would gather them once a micro-batch.
  plan.zero = plan.pipeline_parallel > 1 ? training::Zero::optimizer : training::Zero::weights;
  plan.gradients_fp32 = plan.gradients_anew = true;  // freed by zero_grad
  plan.recompute = recompute_of(table.text(row, "act_ckpt"));
  step.gpus = table.count(row, "gpus");
  step.global_batch = table.count(row, "global_batch");
  return step;
}

class TorchtitanTables final : public TableKind {
 public:
  std::string_view name() const override { return "training_torchtitan"; }
  bool reads(std::string_view path) const override { return path == "training/torchtitan_llama3.csv"; }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    std::map<std::string, std::unique_ptr<StepPredictor>> predictors;
    std::set<std::string> seen;
    out.each_row("iteration", table, [&](std::size_t row) {
      const std::string& gpu = table.text(row, "gpu");
      const std::string_view regime = seen.insert(table.text(row, "model")).second ? "fitted" : "not fitted";
      std::unique_ptr<StepPredictor>& predictor = predictors[gpu];
      if (!predictor) {
        const auto found = parts.for_table<hw::GpuParams>("torchtitan_" + gpu);
        if (!found) return out.skip("iteration", row, "no part of the catalog stands for " + gpu);
        predictor = std::make_unique<StepPredictor>(parts, found.entry->part, system_of());
      }
      const MeasuredStep step = step_of(table, row);
      std::string why;
      const auto predicted = predictor->predict(step, why);
      if (!predicted) return out.skip("iteration", row, why);
      const double tokens = static_cast<double>(step.global_batch * step.model.sequence);
      const double measured = tokens / (table.number(row, "tokens_per_s_per_gpu") * static_cast<double>(step.gpus));
      const std::string_view precision = table.text(row, "precision") == "bf16" ? "bf16" : "fp8";
      out.add("iteration", row, measured, predicted->run.times.time_s, {regime, precision});
      if (table.text(row, "peak_gib").empty()) return;
      out.add("memory", row, table.number(row, "peak_gib"),
              static_cast<double>(predicted->most_allocated()) / (1 << 30), {precision});
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "model") + "x" + table.text(row, "gpus") + "x" + table.text(row, "seq");
  }
};

}  // namespace torchtitan_table

std::unique_ptr<TableKind> training_torchtitan_tables() {
  return std::make_unique<torchtitan_table::TorchtitanTables>();
}

}  // namespace orrery::experiments
