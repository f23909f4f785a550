// Published iterations of GPT under Megatron-LM: `training/korthikanti2022_table5_iteration_time.csv`,
// `megatron_a100_weak_scaling_2021.csv`, `megatron_2020_v100_a100_tp_scaling.csv` and the Megatron-LM rows of
// `megascale_175b.csv`. The first three ran on NVIDIA's own clusters (eight adapters a node of eight A100; 16 V100 a
// DGX-2); batches are large and no host is waited for. Nothing is fitted but one speed of kernels for the first table,
// on the first row of each of its models.
//
// What the tables do not say: micro-batches and layers a virtual stage of the 2021 table stand in Megatron-LM's script
// of that table (examples/sc21/run_table_1.sh); its iteration time follows from the achieved FLOP/s by the paper's
// count, 96 B s l h^2 (1 + s/6h + V/16lh), V = 51200. The runs of 2020 checkpoint every layer and have one micro-batch.
#include <fmt/format.h>

#include "experiments/fidelity/table_kind.hpp"
#include "experiments/fidelity/training_step.hpp"

namespace orrery::experiments {
namespace megatron_tables {

constexpr std::int64_t kVocabulary = 51200;
/// Speed of kernels in the runs of Korthikanti et al., fitted on the first row of each model.
constexpr double kTable5Kernel = 1.05;

/// Megatron-LM's settings of a model of the 2021 table.
struct ScriptEntry {
  std::string_view model;
  std::int64_t micro_batch, chunks;
};
constexpr ScriptEntry kScript2021[]{{"1.7B", 16, 1}, {"3.6B", 16, 1}, {"7.5B", 16, 1}, {"18B", 8, 1},  {"39B", 4, 1},
                                    {"76B", 2, 3},   {"145B", 2, 2},  {"310B", 1, 2},  {"530B", 1, 3}, {"1T", 1, 1}};

void set_chunks(MeasuredStep& step, std::int64_t chunks) {
  step.plan.interleave = chunks;
  if (chunks > 1) step.schedule = "interleaved";
}

class MegatronTables final : public TableKind {
 public:
  std::string_view name() const override { return "training_megatron"; }
  bool reads(std::string_view path) const override {
    return path == "training/korthikanti2022_table5_iteration_time.csv" ||
           path == "training/megatron_a100_weak_scaling_2021.csv" ||
           path == "training/megatron_2020_v100_a100_tp_scaling.csv" || path == "training/megascale_175b.csv";
  }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    if (table.has("tensor_mp") && table.has("case")) return predict_2020(table, parts, out);
    const auto found = parts.for_table<hw::GpuParams>(table.stem());
    if (!found) return out.skip_all("iteration", table, "no part of the catalog stands for it");
    const double kernel = table.has("recompute") ? kTable5Kernel : 1;
    StepPredictor predictor(parts, found.entry->part, {.in_situ = {.kernel = kernel}});
    out.each_row("iteration", table, [&](std::size_t row) {
      if (table.has("system") && table.text(row, "system") != "Megatron-LM")
        return out.skip("iteration", row, "another model: parallel blocks and windows of attention");
      double seconds = 0;
      const MeasuredStep step = table.has("recompute")                 ? table5(table, row, seconds)
                                : table.has("achieved_tflops_per_gpu") ? weak_scaling(table, row, seconds)
                                                                       : megascale(table, row, seconds);
      std::string why;
      const auto predicted = predictor.predict(step, why);
      if (!predicted) return out.skip("iteration", row, why);
      out.add("iteration", row, seconds, predicted->run.times.time_s, {});
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "hidden") + (table.has("num_gpus") ? table.text(row, "num_gpus") : table.text(row, "gpus"));
  }

 private:
  static MeasuredStep table5(const MeasuredTable& table, std::size_t row, double& seconds) {
    MeasuredStep step;
    step.model = gpt_graph({.layers = table.count(row, "blocks"),
                            .hidden = table.count(row, "hidden"),
                            .heads = table.count(row, "heads"),
                            .sequence = table.count(row, "seq")});
    step.plan.tensor_parallel = table.count(row, "tp");
    step.plan.pipeline_parallel = table.count(row, "pp");
    step.plan.data_parallel = table.count(row, "dp");
    step.plan.micro_batch = table.count(row, "microbatch");
    step.plan.sequence_parallel = table.text(row, "seq_par") == "rs_ag";
    step.plan.recompute =
        table.text(row, "recompute") == "full" ? training::Recompute::full : training::Recompute::selective;
    set_chunks(step, table.count(row, "interleave"));
    step.gpus = table.count(row, "num_gpus");
    step.global_batch = table.count(row, "global_batch");
    seconds = table.number(row, "measured_iter_s");
    return step;
  }

  static MeasuredStep weak_scaling(const MeasuredTable& table, std::size_t row, double& seconds) {
    MeasuredStep step;
    step.model = gpt_graph({.layers = table.count(row, "layers"),
                            .hidden = table.count(row, "hidden"),
                            .heads = table.count(row, "attention_heads_NOT_IN_SOURCE_SEEN"),
                            .sequence = 2048});
    step.plan.tensor_parallel = table.count(row, "tensor_mp_NOT_IN_SOURCE_SEEN");
    step.plan.pipeline_parallel = table.count(row, "pipeline_mp_NOT_IN_SOURCE_SEEN");
    step.plan.recompute = training::Recompute::full;
    step.plan.overlap_gradients = false;
    step.gpus = table.count(row, "num_gpus");
    step.global_batch = table.count(row, "global_batch");
    for (const ScriptEntry& entry : kScript2021)
      if (entry.model == table.text(row, "model")) {
        step.plan.micro_batch = entry.micro_batch;
        set_chunks(step, entry.chunks);
      }
    const auto d = [](std::int64_t value) { return static_cast<double>(value); };
    const double h = table.number(row, "hidden"), l = table.number(row, "layers"), s = 2048;
    const double flops = 96 * d(step.global_batch) * s * l * h * h * (1 + s / (6 * h) + kVocabulary / (16 * l * h));
    seconds = flops / (table.number(row, "achieved_tflops_per_gpu") * 1e12 * d(step.gpus));
    return step;
  }

  static MeasuredStep megascale(const MeasuredTable& table, std::size_t row, double& seconds) {
    MeasuredStep step;
    step.model = gpt_graph({.layers = table.count(row, "layers"),
                            .hidden = table.count(row, "hidden"),
                            .heads = table.count(row, "heads"),
                            .sequence = table.count(row, "seq"),
                            .vocabulary = table.count(row, "vocab")});
    step.plan.tensor_parallel = table.count(row, "tp");
    step.plan.pipeline_parallel = table.count(row, "pp");
    step.plan.sequence_parallel = true;
    step.plan.recompute = training::Recompute::selective;
    set_chunks(step, table.count(row, "interleave"));
    step.gpus = table.count(row, "gpus");
    step.global_batch = table.count(row, "global_batch");
    seconds = table.number(row, "iter_s");
    return step;
  }

  /// Tensor parallelism alone, on V100 of a DGX-2 and on A100.
  static void predict_2020(const MeasuredTable& table, const PartShelf& parts, Predictions& out) {
    const auto a100 = parts.for_table<hw::GpuParams>("megatron_2020_a100");
    const auto v100 = parts.for_table<hw::GpuParams>("megatron_2020_v100");
    if (!a100 || !v100) return out.skip_all("iteration", table, "no parts of the catalog stand for it");
    StepPredictor ampere(parts, a100.entry->part, {});
    hw::GpuParams switched = v100.entry->part;  // a DGX-2 joins its sixteen by switches, not as a cube mesh
    switched.link.pair_bandwidth = 0;
    switched.link.mesh.clear();
    StepPredictor volta(parts, switched, {.node_gpus = 16, .nic = "ib-edr-4x"});
    out.each_row("iteration", table, [&](std::size_t row) {
      const bool is_v100 = table.text(row, "gpu").starts_with("V100");
      MeasuredStep step;
      step.model = gpt_graph({.layers = table.count(row, "layers"),
                              .hidden = table.count(row, "hidden"),
                              .heads = table.count(row, "heads"),
                              .sequence = 1024});
      step.plan.tensor_parallel = table.count(row, "tensor_mp");
      step.plan.recompute = training::Recompute::full;
      step.plan.overlap_gradients = false;
      step.gpus = table.count(row, "num_gpus");
      step.global_batch = table.count(row, "global_batch");
      step.plan.micro_batch = step.global_batch / (step.gpus / step.plan.tensor_parallel);
      std::string why;
      const auto predicted = (is_v100 ? volta : ampere).predict(step, why);
      if (!predicted) return out.skip("iteration", row, why);
      out.add("iteration", row, table.number(row, "iteration_ms"), predicted->run.times.time_s * 1e3,
              {is_v100 ? "V100" : "A100"});
    });
  }
};

}  // namespace megatron_tables

std::unique_ptr<TableKind> training_megatron_tables() {
  return std::make_unique<megatron_tables::MegatronTables>();
}

}  // namespace orrery::experiments
