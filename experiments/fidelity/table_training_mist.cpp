// `training/mist_measured_l4.csv`: GPT and LLaMA under the plans that Mist found for L4 (its artifact); the plans are
// in `systems/mist_tuned_configs.csv`: layers, layers that run again and offloaded optimizer states, stage by stage.
//
// No dropout; without flash attention, scale, mask and softmax are one kernel. The board runs at a pinned clock of
// 1,050 MHz (the artifact's README). The one constant, the speed of kernels beside the part's own, is fitted on the
// first row of each family. Peak memory of each stage is the second metric: nothing of it is fitted.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "experiments/fidelity/table_kind.hpp"
#include "experiments/fidelity/training_step.hpp"
#include "hw/gpu/dvfs.hpp"

namespace orrery::experiments {
namespace mist_table {

constexpr double kClock = 1.05e9;
constexpr double kKernel = 1.11;

/// Between a device and its host, all devices at once: GB/s there and back (`systems/mist_hw_params.csv`, l4-24gb).
hw::LinkPart host_link() {
  hw::LinkPart link;
  link.bandwidth = 6.1252e9;
  link.efficiency = 5.7546 / 6.1252;
  link.reverse_efficiency = 1;
  link.header_bytes = 0;
  return link;
}

/// Sizes by the number in a case's name.
struct Sizes {
  const char* name;
  std::int64_t layers, hidden, heads, gated;  ///< gated: width of LLaMA's feed-forward
};
constexpr Sizes kSizes[] = {{"1.3b", 24, 2048, 16, 5504},
                            {"2.7b", 32, 2560, 32, 6912},
                            {"7b", 32, 4096, 32, 11008},
                            {"13b", 40, 5120, 40, 13824},
                            {"22b", 48, 6144, 64, 16384}};

/// What stands behind `-key_` in a case's name: "1.3b-s_2048-v_50304-b_32-n_1-m_2-f_True".
std::string part_of(const std::string& name, const std::string& key) {
  const std::size_t begin = name.find("-" + key + "_");
  if (begin == std::string::npos) return {};
  const std::size_t value = begin + key.size() + 2;
  return name.substr(value, name.find('-', value) - value);
}

TrainedGraph graph_of(const std::string& family, const Sizes& sizes, std::int64_t sequence, bool flash) {
  if (family == "gpt")
    return gpt_graph({.layers = sizes.layers,
                      .hidden = sizes.hidden,
                      .heads = sizes.heads,
                      .sequence = sequence,
                      .vocabulary = 50304,
                      .flash = flash,
                      .dropout = 0});
  TrainedGraph graph{.builder = "decoder", .params = sim::Node::object(), .sequence = sequence};
  const auto set = [&](const char* name, std::int64_t value) { graph.params.set(name, sim::Node::integer(value)); };
  set("layers", sizes.layers);
  set("hidden", sizes.hidden);
  set("heads", sizes.heads);
  set("kv_heads", sizes.heads);
  set("head_dim", sizes.hidden / sizes.heads);
  set("intermediate", sizes.gated);
  set("vocab", 50304);
  graph.params.set("tied", sim::Node::boolean(false));
  graph.params.set("loss", sim::Node::boolean(true));
  graph.params.set("wide_loss", sim::Node::boolean(true));
  return graph;
}

/// A stage's "1,2,1,0,0,1,0.0,0.0,0.125,0.0": micro-batch, copies, tensor, ZeRO of weights, gradients and states,
/// offloaded shares of weights, gradients, states and activations; what is not modelled of it is the answer.
std::string read_strategy(const std::vector<double>& v, training::PlanParams& plan) {
  if (v.size() != 10) return "a stage's strategy";
  plan.micro_batch = static_cast<std::int64_t>(v[0]);
  plan.data_parallel = static_cast<std::int64_t>(v[1]);
  plan.tensor_parallel = static_cast<std::int64_t>(v[2]);
  using enum training::Zero;
  const training::Zero zero = v[3] != 0 ? weights : v[4] != 0 ? gradients : v[5] != 0 ? optimizer : none;
  if (!plan.offload_optimizer.empty() && zero != plan.zero) return "ZeRO differs by stage";
  plan.zero = zero;
  plan.offload_weights.push_back(v[6]);
  plan.offload_gradients.push_back(v[7]);
  plan.offload_optimizer.push_back(v[8]);
  plan.offload_activations.push_back(v[9]);
  return {};
}

class MistTables final : public TableKind {
 public:
  std::string_view name() const override { return "training_mist"; }
  bool reads(std::string_view path) const override { return path == "training/mist_measured_l4.csv"; }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const auto* l4 = parts.find<hw::GpuParams>("l4");
    if (l4 == nullptr) return out.skip_all("iteration", table, "no part of the catalog is an L4");
    const std::filesystem::path plans_file = table.root() / "systems/mist_tuned_configs.csv";
    if (!std::filesystem::is_regular_file(plans_file))
      return out.skip_all("iteration", table, "systems/mist_tuned_configs.csv, which has the plans, is not there");
    const MeasuredTable plans = MeasuredTable::read(table.root(), "systems/mist_tuned_configs.csv");
    const hw::GpuParams gpu = hw::at_clock(l4->part, kClock);
    const MeasuredSystem system{.in_situ = {.kernel = kKernel}, .host_link = host_link()};
    StepPredictor predictor(parts, gpu, system);
    predictor.tell_reserved();
    std::set<std::string> families;
    out.each_row("iteration", table, [&](std::size_t row) {
      const std::string& family = table.text(row, "model_family");
      const bool fitted = families.insert(family).second;
      MeasuredStep step;
      const std::string why_not = read_step(table, row, plans, step);
      if (!why_not.empty()) return out.skip("iteration", row, why_not);
      std::string why;
      const auto predicted = predictor.predict(step, why);
      if (!predicted) return out.skip("iteration", row, why);
      out.add("iteration", row, table.number(row, "measured_iter_s"), predicted->run.times.time_s,
              {std::string_view(family), fitted ? "fitted" : "not fitted"});
      add_memory(table, row, *predicted, out);
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "model_family") + table.text(row, "config(size-seq-vocab-batch-nodes-gpus/node-flashattn)");
  }

 private:
  /// The fullest stage of a cell, in MB as the artifact counts them: "[18506 MB, 13406 MB]".
  static double fullest(std::string stages) {
    for (const std::string_view mark : {"[", "]", " MB"})
      for (std::size_t at = stages.find(mark); at != std::string::npos; at = stages.find(mark))
        stages.erase(at, mark.size());
    double most = 0;
    for (const double stage : cell_numbers(stages, ',')) most = std::max(most, stage);
    return most;
  }

  static void add_memory(const MeasuredTable& table, std::size_t row, const StepPredictor::Prediction& predicted,
                         Predictions& out) {
    const auto mib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
    out.add("memory", row, fullest(table.text(row, "stage_peak_alloc")), mib(predicted.most_allocated()), {});
    if (predicted.most_reserved() > 0)
      out.add("reserved", row, fullest(table.text(row, "stage_peak_reserved")), mib(predicted.most_reserved()), {});
  }

  static std::string read_step(const MeasuredTable& table, std::size_t row, const MeasuredTable& plans,
                               MeasuredStep& step) {
    const std::string& name = table.text(row, "config(size-seq-vocab-batch-nodes-gpus/node-flashattn)");
    const auto sizes = std::find_if(std::begin(kSizes), std::end(kSizes),
                                    [&](const Sizes& s) { return name.starts_with(std::string(s.name) + "-"); });
    if (sizes == std::end(kSizes)) return "a model of another size";
    for (std::size_t p = 0; p < plans.rows(); ++p) {
      if (plans.text(p, "case") != name || plans.text(p, "family") != table.text(row, "model_family") ||
          plans.text(p, "hw") != table.text(row, "gpu"))
        continue;
      step.model = graph_of(table.text(row, "model_family"), *sizes,
                            static_cast<std::int64_t>(cell_numbers(part_of(name, "s"), '|').front()),
                            part_of(name, "f") == "True");
      for (const double layers : cell_numbers(plans.text(p, "layers_per_stage"), '|'))
        step.layers.push_back(static_cast<std::int64_t>(layers));
      for (const double again : cell_numbers(plans.text(p, "ckpt_layers_per_stage"), '|'))
        step.plan.stage_recompute_layers.push_back(static_cast<std::int64_t>(again));
      step.plan.recompute = training::Recompute::full;
      step.plan.pipeline_parallel = std::ssize(step.layers);
      step.gpus = plans.count(p, "nodes") * plans.count(p, "gpus_per_node");
      step.global_batch = plans.count(p, "global_batch");
      const std::string strategies = plans.text(p, "stage_strategies");
      for (std::size_t begin = 0; begin < strategies.size();) {
        const std::size_t end = std::min(strategies.find('|', begin), strategies.size());
        const std::string why = read_strategy(cell_numbers(strategies.substr(begin, end - begin), ','), step.plan);
        if (!why.empty()) return why;
        begin = end + 1;
      }
      return {};
    }
    return "the plan is not in systems/mist_tuned_configs.csv";
  }
};

}  // namespace mist_table

std::unique_ptr<TableKind> training_mist_tables() {
  return std::make_unique<mist_table::MistTables>();
}

}  // namespace orrery::experiments
