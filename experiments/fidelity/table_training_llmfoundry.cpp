// `training/llmfoundry_mpt_throughput.csv`: MPT models trained by Composer over FSDP, on A100 of 40 and 80 GB and H100.
//
// Flash attention, no dropout; `mp_mode` DEFAULT sums gradients in fp32, PURE in bf16. Rows in fp8
// have Transformer Engine's casts (the pass fp8, weights cast where they are read).
#include "experiments/fidelity/table_kind.hpp"
#include "experiments/fidelity/training_step.hpp"

namespace orrery::experiments {
namespace llmfoundry_table {

constexpr std::int64_t kVocabulary = 50368;

/// Speeds in these runs, fitted for each GPU on every fifth row (rows 0, 5, 10 …). Attention is FlashAttention's first
/// version, which the second's paper puts at half of its own speed; constants are of the second.
MeasuredSystem system_of(std::string_view gpu) {
  MeasuredSystem system;
  if (gpu == "a100_80gb") system.in_situ = {.kernel = 1, .attention = 0.7};
  if (gpu == "a100_40gb") system.in_situ = {.kernel = 0.9, .attention = 0.7};
  if (gpu == "h100_80gb") system.in_situ = {.kernel = 0.75, .collective = 0.3, .attention = 0.7};
  if (gpu == "h100_80gb") system.attention = hw::AttentionLibrary::flash2;
  if (gpu == "h100_80gb") system.nic = "ib-ndr-4x";
  return system;
}

class LlmFoundryTables final : public TableKind {
 public:
  std::string_view name() const override { return "training_llmfoundry"; }
  bool reads(std::string_view path) const override { return path == "training/llmfoundry_mpt_throughput.csv"; }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    std::map<std::string, std::unique_ptr<StepPredictor>> predictors;
    out.each_row("iteration", table, [&](std::size_t row) {
      const std::string& gpu = table.text(row, "gpu");
      std::unique_ptr<StepPredictor>& predictor = predictors[gpu];
      if (!predictor) {
        const auto found = parts.for_table<hw::GpuParams>("llmfoundry_" + gpu);
        if (!found) return out.skip("iteration", row, "no part of the catalog stands for " + gpu);
        predictor = std::make_unique<StepPredictor>(parts, found.entry->part, system_of(gpu));
      }
      MeasuredStep step;
      step.model = gpt_graph({.layers = table.count(row, "layers"),
                              .hidden = table.count(row, "hidden"),
                              .heads = table.count(row, "heads"),
                              .sequence = table.count(row, "seq"),
                              .vocabulary = kVocabulary,
                              .flash = true});
      if (table.text(row, "precision") == "amp_fp8") step.model.passes.emplace_back("fp8", sim::Node::object());
      step.plan.micro_batch = table.count(row, "micro_batch");
      step.plan.zero =
          table.text(row, "sharding") == "FULL_SHARD" ? training::Zero::weights : training::Zero::gradients;
      step.plan.gradients_fp32 = table.text(row, "mp_mode") == "DEFAULT";
      if (table.text(row, "act_ckpt") == "True") step.plan.recompute = training::Recompute::full;
      step.gpus = table.count(row, "gpus");
      step.global_batch = table.count(row, "global_batch");
      std::string why;
      const auto predicted = predictor->predict(step, why);
      if (!predicted) return out.skip("iteration", row, why);
      out.add("iteration", row, table.number(row, "iter_s"), predicted->run.times.time_s,
              {gpu == "h100_80gb"   ? "H100"
               : gpu == "a100_80gb" ? "A100 80 GB"
                                    : "A100 40 GB",
               step.gpus > 8 ? "several nodes" : "one node", row % 5 == 0 ? "fitted" : "not fitted"});
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "model") + table.text(row, "gpus") + table.text(row, "seq");
  }
};

}  // namespace llmfoundry_table

std::unique_ptr<TableKind> training_llmfoundry_tables() {
  return std::make_unique<llmfoundry_table::LlmFoundryTables>();
}

}  // namespace orrery::experiments
