// `training/<stem>.steps.csv`: a user's table of measured plans; `tools/profile_gpu.py --tables training` writes one.
//
// A row is a decoder, a plan, and what a step of it took. The model is `config` (of the catalog, or a config.json) or
// sizes named as the builder's (hidden, intermediate, heads, kv_heads, layers, vocab); the plan's columns are named as
// the section `plan` of a config has them, and may be absent. Weights in 16 bits with copies and moments in fp32. Not
// compiled, every pass over memory is a kernel and the loss is eager in fp32.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/fidelity/table_kind.hpp"
#include "experiments/fidelity/training_step.hpp"

namespace orrery::experiments {
namespace steps_table {

std::int64_t count_or(const MeasuredTable& table, std::size_t row, std::string_view column, std::int64_t otherwise) {
  return table.has(column) ? table.count(row, column) : otherwise;
}
bool flag(const MeasuredTable& table, std::size_t row, std::string_view column) {
  return table.has(column) && table.text(row, column) == "1";
}
template <class Enum>
Enum choice(const MeasuredTable& table, std::size_t row, std::string_view column, Enum otherwise) {
  if (!table.has(column)) return otherwise;
  const auto found = sim::value_named<Enum>(table.text(row, column));
  if (!found) {
    std::string names;
    for (const auto& [name, value] : sim::names_of<Enum>) names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
    sim::throw_fault({"training table", ""}, fmt::format("expected one of {} in column '{}', got '{}'", names, column,
                                                         table.text(row, column)));
  }
  return *found;
}

TrainedGraph graph_of(const MeasuredTable& table, std::size_t row) {
  DecoderRun run{.sequence = table.count(row, "sequence"), .compiled = flag(table, row, "compiled"), .wide_loss = true};
  run.eager_loss = !run.compiled;
  if (table.has("config")) {
    run.config = table.text(row, "config");
    return decoder_graph(run);
  }
  TrainedGraph graph = decoder_graph(run);
  for (const char* size : {"hidden", "intermediate", "heads", "kv_heads", "layers", "vocab"})
    graph.params.set(size, sim::Node::integer(table.count(row, size)));
  graph.params.set("head_dim", sim::Node::integer(table.count(row, "hidden") / table.count(row, "heads")));
  graph.params.set("tied", sim::Node::boolean(false));
  return graph;
}

MeasuredStep step_of(const MeasuredTable& table, std::size_t row) {
  MeasuredStep step;
  step.model = graph_of(table, row);
  training::PlanParams& plan = step.plan;
  const auto count = [&](std::string_view column) { return count_or(table, row, column, 1); };
  plan.tensor_parallel = count("tensor_parallel");
  plan.context_parallel = count("context_parallel");
  plan.pipeline_parallel = count("pipeline_parallel");
  plan.interleave = count("interleave");
  plan.micro_batch = count("micro_batch");
  plan.sequence_parallel = flag(table, row, "sequence_parallel");
  plan.gradients_fp32 = flag(table, row, "gradients_fp32");
  plan.zero = choice(table, row, "zero", training::Zero::none);
  plan.recompute = choice(table, row, "recompute", training::Recompute::none);
  if (plan.interleave > 1) step.schedule = "interleaved";
  step.gpus = count("gpus");
  step.global_batch = count("global_batch");
  return step;
}

class StepTables final : public TableKind {
 public:
  std::string_view name() const override { return "training_steps"; }
  bool reads(std::string_view path) const override {
    return path.starts_with("training/") && path.ends_with(".steps.csv");
  }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const auto found = parts.for_table<hw::GpuParams>(table.stem());
    if (!found) return out.skip_all("iteration", table, "no part of the catalog stands for it");
    StepPredictor predictor(parts, found.entry->part, MeasuredSystem{.attention = hw::AttentionLibrary::flash2});
    out.each_row("iteration", table, [&](std::size_t row) {
      const MeasuredStep step = step_of(table, row);
      std::string why;
      const auto predicted = predictor.predict(step, why);
      if (!predicted) return out.skip("iteration", row, why);
      const std::string_view how = flag(table, row, "compiled") ? "compiled" : "eager";
      out.add("iteration", row, table.number(row, "iter_s"), predicted->run.times.time_s, {how});
      if (!table.has("allocated_gib")) return;
      std::int64_t most = 0;
      for (const training::StageMemory& memory : predicted->memory) most = std::max(most, memory.total());
      out.add("memory", row, table.number(row, "allocated_gib"), static_cast<double>(most) / (1 << 30), {how});
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    std::string key;
    for (const std::string_view column : {"config", "hidden", "layers", "sequence", "micro_batch", "gpus"})
      if (table.has(column)) key += table.text(row, column) + "x";
    return key;
  }
};

}  // namespace steps_table

std::unique_ptr<TableKind> training_step_tables() {
  return std::make_unique<steps_table::StepTables>();
}

}  // namespace orrery::experiments
