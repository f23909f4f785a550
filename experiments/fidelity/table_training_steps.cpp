// `training/<stem>.steps.csv`: a user's table of measured plans; `tools/profile_gpu.py --tables training` writes one.
//
// A row is a decoder, a plan, and what a step of it took. The model is `config` (a name of the catalog) or sizes named
// as the builder's (hidden, intermediate, heads, kv_heads, layers, vocab); the plan's columns are named as the section
// `plan` of a config has them, and may be absent. Weights in 16 bits with copies and moments in fp32. Not compiled,
// every pass over memory is a kernel and the loss is eager in fp32. Nodes of eight, joined by 200 Gb/s a GPU. Times of
// the passes are metrics of their own where a row has them and one stage.
#include "experiments/fidelity/table_training_steps.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::experiments {
namespace steps_table {

std::int64_t count_or(const MeasuredTable& table, std::size_t row, std::string_view column, std::int64_t otherwise) {
  return table.has(column) ? table.count(row, column) : otherwise;
}
bool flag(const MeasuredTable& table, std::size_t row, std::string_view column) {
  if (!table.has(column)) return false;
  const std::string& cell = table.text(row, column);
  if (cell != "0" && cell != "1")
    sim::throw_fault({"training table", ""}, fmt::format("expected 0 or 1 in column '{}', got '{}'", column, cell));
  return cell == "1";
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

constexpr std::int64_t kMostLayers = 4096;  ///< beyond, a cell is wrong and its graph would take minutes

TrainedGraph graph_of(const MeasuredTable& table, std::size_t row) {
  const bool compiled = flag(table, row, "compiled"), named = table.has("config");
  TrainedGraph graph = decoder_graph({.config = named ? table.text(row, "config") : "",
                                      .sequence = table.count(row, "sequence"),
                                      .compiled = compiled,
                                      .min_cut = compiled,
                                      .wide_loss = true,
                                      .eager_loss = !compiled});
  if (named) return graph;
  for (const char* size : {"hidden", "intermediate", "heads", "kv_heads", "layers", "vocab"})
    graph.params.set(size, sim::Node::integer(table.count(row, size)));
  if (table.count(row, "layers") > kMostLayers)
    sim::throw_fault({"training table", ""}, "more layers than any model has");
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
  // Where a table does not say, as tools/profile_training.py updates: fp32 copies are the optimizer's parameters, and
  // gradients are freed after a step.
  plan.update_apart = !table.has("update_apart") || flag(table, row, "update_apart");
  plan.gradients_anew = !table.has("gradients_anew") || flag(table, row, "gradients_anew");
  if (plan.interleave > 1) step.schedule = "interleaved";
  step.gpus = count("gpus");
  step.global_batch = count("global_batch");
  return step;
}

/// Cells of those of the columns that the table has.
std::string key_of(const MeasuredTable& table, std::size_t row, std::initializer_list<std::string_view> columns) {
  std::string key;
  for (const std::string_view column : columns)
    if (table.has(column)) key += table.text(row, column) + "x";
  return key;
}

class StepTables final : public TableKind {
 public:
  std::string_view name() const override { return "training_steps"; }
  bool reads(std::string_view path) const override { return is_steps_table(path); }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const auto found = parts.for_table<hw::GpuParams>(table.stem());
    if (!found) return out.skip_all("iteration", table, "no part of the catalog stands for it");
    StepPredictor predictor(parts, found.entry->part, steps_system(found));
    predictor.tell_reserved();
    predict_steps(table, predictor, out);
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return steps_shape_key(table, row);
  }
};

}  // namespace steps_table

bool is_steps_table(std::string_view path) {
  return path.starts_with("training/") && path.ends_with(".steps.csv");
}

MeasuredSystem steps_system(const PartShelf::Found<hw::GpuParams>& part) {
  MeasuredSystem system;
  if (part.measured_as == "pytorch") system.attention = hw::AttentionLibrary::flash2;
  return system;
}

void predict_steps(const MeasuredTable& table, StepPredictor& predictor, Predictions& out) {
  out.each_row("iteration", table, [&](std::size_t row) {
    const MeasuredStep step = steps_table::step_of(table, row);
    std::string why;
    const auto predicted = predictor.predict(step, why);
    if (!predicted) return out.skip("iteration", row, why);
    const std::string_view how = steps_table::flag(table, row, "compiled") ? "compiled" : "eager";
    const auto tell = [&](std::string_view metric, std::string_view column, double value) {
      if (table.has(column)) out.add(metric, row, table.number(row, column), value, {how});
    };
    tell("iteration", "iter_s", predicted->run.times.time_s);
    if (predicted->costs.stages.size() == 1) {
      const training::StageCosts& stage = predicted->costs.stages.front();
      const auto micro_batches = static_cast<double>(predicted->costs.plan.micro_batches);
      tell("forward", "forward_s", micro_batches * stage.forward_s());
      tell("backward", "backward_s", micro_batches * stage.backward_s());
      tell("optimizer", "optimizer_s", stage.optimizer_s);
    }
    const auto gib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
    tell("memory", "allocated_gib", gib(predicted->most_allocated()));
    if (predicted->most_reserved() > 0) tell("reserved", "reserved_gib", gib(predicted->most_reserved()));
  });
}

std::string steps_shape_key(const MeasuredTable& table, std::size_t row) {
  return steps_table::key_of(table, row, {"config", "hidden", "layers", "sequence", "micro_batch", "gpus"});
}
std::string steps_model_key(const MeasuredTable& table, std::size_t row) {
  return steps_table::key_of(table, row, {"config", "hidden", "intermediate", "layers", "vocab"});
}

std::unique_ptr<TableKind> training_step_tables() {
  return std::make_unique<steps_table::StepTables>();
}

}  // namespace orrery::experiments
