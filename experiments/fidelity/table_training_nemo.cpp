// Steps of NeMo and Megatron-Core: `training/mlperf_llm_steps.csv` (official logs of MLPerf Training) and
// `training/megatron_bridge_throughput.csv` (performance pages of Megatron-Bridge, release by release).
//
// What all of them run: products in fp8 with weights kept so, sequence parallelism, gathers and scatters beside
// products, the distributed optimizer with gradients summed beside the backward pass, interleaved chunks, nothing run
// again, fused norms, rotations and activations. The one constant, the speed of kernels in situ, is fitted on the first
// row of an H100 of MLPerf; every fifth row of Megatron-Bridge (rows 1, 6, 11 …) gives the same.
// DeepSeek-V3 has its module that predicts a token more, unless a row says it has not. Not covered: products in fp4,
// fine-tuning, gpt-oss, which comes out too fast for a cause that is not known (docs/explain/training.md).
#include <algorithm>
#include <map>
#include <memory>

#include "experiments/fidelity/table_kind.hpp"
#include "experiments/fidelity/training_step.hpp"

namespace orrery::experiments {
namespace nemo_table {

/// What the tables call a machine, and the catalog.
struct Machine {
  const char *name, *part, *nic;
  std::int64_t node = 8;
};
constexpr Machine kMachines[] = {
    {"H100-80GB", "h100-sxm5-80gb", "ib-ndr-4x"}, {"H200-141GB", "h200-sxm-141gb", "ib-ndr-4x"},
    {"GB200", "gb200", "ib-ndr-4x", 72},          {"DGX-H100", "h100-sxm5-80gb", "ib-ndr-4x"},
    {"DGX-B200", "b200-sxm", "ib-ndr-4x"},        {"DGX-GB200", "gb200", "ib-ndr-4x", 72},
    {"DGX-B300", "b300-sxm", "ib-xdr-4x"},        {"DGX-GB300", "gb300", "ib-xdr-4x", 72},
};

/// A model; `edges`: embedding and head count as layers where layers are divided among stages.
struct Model {
  const char *name, *config;
  bool edges = false;
  bool experts = false;
  std::int64_t further_tokens = 0;
};
constexpr Model kModels[] = {{"llama31_405b", "llama-3.1-405b", true},
                             {"LLAMA3.1_405B", "llama-3.1-405b", true},
                             {"LLAMA3_70B", "llama-3-70b"},
                             {"LLAMA3_8B", "llama-3-8b"},
                             {"Qwen3_30B_a3B", "qwen3-30b-a3b", false, true},
                             {"Qwen3_235B_a22B", "qwen3-235b-a22b", false, true},
                             {"DeepSeekV3", "deepseek-v3", false, true, 1},
                             {"DeepSeekV3 (w/ MTP)", "deepseek-v3", false, true, 1},
                             {"DeepSeekV3 (w/o MTP)", "deepseek-v3", false, true},
                             {"DeepSeekV3 (tokendrop)", "deepseek-v3", false, true, 1},
                             {"DeepSeekV3 (dropless)", "deepseek-v3", false, true, 1}};

sim::Node fp8_params(std::string_view precision) {
  sim::Node params = sim::Node::object();
  const char* scaling = precision.ends_with("CS") || precision.empty()   ? "tensor"
                        : precision.find("MX") != std::string_view::npos ? "block"
                                                                         : "delayed";
  params.set("scaling", sim::Node::string(scaling));
  params.set("weights", sim::Node::string("kept"));
  return params;
}

/// The columns that both tables have.
void read_plan(const MeasuredTable& table, std::size_t row, MeasuredStep& step) {
  training::PlanParams& plan = step.plan;
  const auto count = [&](const char* column) {
    return table.text(row, column).empty() ? 1 : std::max<std::int64_t>(1, table.count(row, column));
  };
  plan.tensor_parallel = count("tp");
  plan.sequence_parallel = plan.async_tensor_parallel = plan.tensor_parallel > 1;
  plan.pipeline_parallel = count("pp");
  plan.context_parallel = count("cp");
  if (table.has("ep")) plan.expert_parallel = count("ep");
  plan.expert_dispatch = training::ExpertDispatch::tokens;
  plan.interleave = plan.pipeline_parallel > 1 ? count("interleave") : 1;
  plan.micro_batch = count("micro_batch");
  plan.zero = training::Zero::optimizer;
  step.schedule = plan.interleave > 1 ? "interleaved" : "1f1b";
  step.gpus = table.count(row, "gpus");
  step.global_batch = table.count(row, "global_batch");
}

/// Layers of each stage that are alike, as Megatron-Bridge's recipe of DeepSeek-V3 lays its 61 layers out over chunks:
/// as many in each as divide them, rounded up, and what is left in the last, which has the further token's module and
/// the losses; 32 chunks have one layer in the first and none in the last. Three dense layers are the first chunk's.
std::vector<std::int64_t> deepseek_layers(std::int64_t stages, std::int64_t chunks) {
  constexpr std::int64_t kLayers = 61, kDense = 3;
  const std::int64_t all = stages * chunks, each = (kLayers + all - 1) / all;
  std::vector<std::int64_t> layers(static_cast<std::size_t>(stages), each * chunks);
  const std::int64_t over = each * all - kLayers;  // that the first chunk or the last lacks
  const std::int64_t last = std::min(over, each);
  layers.back() -= last;
  layers.front() -= over - last + kDense;
  return layers;
}

class NemoTables final : public TableKind {
 public:
  std::string_view name() const override { return "training_nemo"; }
  bool reads(std::string_view path) const override {
    return path == "training/mlperf_llm_steps.csv" || path == "training/megatron_bridge_throughput.csv";
  }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const bool mlperf = table.stem() == "mlperf_llm_steps";
    std::map<std::string, std::unique_ptr<StepPredictor>> predictors;
    out.each_row("iteration", table, [&](std::size_t row) {
      const std::string& gpu = table.text(row, mlperf ? "gpu" : "system");
      const auto machine =
          std::find_if(std::begin(kMachines), std::end(kMachines), [&](const Machine& m) { return gpu == m.name; });
      if (machine == std::end(kMachines)) return out.skip("iteration", row, "no part of the catalog is a " + gpu);
      MeasuredStep step;
      const std::string why_not = mlperf ? read_mlperf(table, row, step) : read_bridge(table, row, step);
      if (!why_not.empty()) return out.skip("iteration", row, why_not);
      std::unique_ptr<StepPredictor>& predictor = predictors[gpu];
      if (!predictor) {
        const auto* part = parts.find<hw::GpuParams>(machine->part);
        if (part == nullptr) return out.skip("iteration", row, "no part of the catalog is a " + gpu);
        predictor = std::make_unique<StepPredictor>(parts, part->part, system_of(*machine));
      }
      std::string why;
      const auto predicted = predictor->predict(step, why);
      if (!predicted) return out.skip("iteration", row, why);
      const bool fitted = mlperf ? row == 0 : row % 5 == 0;
      out.add("iteration", row, table.number(row, "iter_s"), predicted->run.times.time_s,
              {mlperf ? std::string_view(gpu) : std::string_view(table.text(row, "release")),
               family_of(table, row, mlperf), fitted ? "fitted" : "not fitted"});
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "gpus") + "x" + table.text(row, "tp") + "x" + table.text(row, "pp");
  }

 private:
  static std::string_view family_of(const MeasuredTable& table, std::size_t row, bool mlperf) {
    const std::string& name = table.text(row, mlperf ? "benchmark" : "model");
    return name.starts_with("DeepSeek") ? "DeepSeek-V3" : name.starts_with("Qwen3") ? "Qwen3" : "dense";
  }

  static MeasuredSystem system_of(const Machine& machine) {
    MeasuredSystem system{.node_gpus = machine.node, .nic = machine.nic, .nics = machine.node};
    system.in_situ.kernel = 0.7;
    return system;
  }

  static std::string read_mlperf(const MeasuredTable& table, std::size_t row, MeasuredStep& step) {
    if (table.text(row, "tp").empty()) return "the row has no plan";
    read_plan(table, row, step);
    step.plan.data_parallel = table.count(row, "dp");
    if (table.text(row, "benchmark") == "gpt3") {
      step.model =
          gpt_graph({.layers = 96, .hidden = 12288, .heads = 96, .sequence = table.count(row, "seq"), .flash = true});
      step.model.passes.emplace_back("fp8", fp8_params("delayed"));
      return {};
    }
    return read_decoder(table, row, "benchmark", "delayed", step);
  }

  static std::string read_bridge(const MeasuredTable& table, std::size_t row, MeasuredStep& step) {
    if (table.text(row, "task") != "pre-training") return "fine-tuning";
    const std::string& precision = table.text(row, "precision");
    if (precision == "NVFP4") return "products in fp4";
    read_plan(table, row, step);
    // Megatron-Bridge's recipes exchange rows beside other micro-batches for DeepSeek-V3 on B200 once its chunks are
    // interleaved, and from 26.06 on in MXFP8 on GB200 and GB300, where experts' products are one kernel that takes
    // what follows them in (cutedsl_fused_grouped_mlp). Those of H100 do so as well, but its rows take longer than with
    // nothing hidden: nothing is hidden there.
    const std::string &system = table.text(row, "system"), &name = table.text(row, "model");
    const bool graphs = is_2606(table, row) && precision == "MXFP8" && system.starts_with("DGX-GB");
    const bool chunks = step.plan.interleave > 1 && system == "DGX-B200" && name.starts_with("DeepSeekV3");
    step.plan.overlap_experts = graphs || chunks;
    if (!table.text(row, "fsdp").empty() && table.number(row, "fsdp") > 1) step.plan.zero = training::Zero::weights;
    return read_decoder(table, row, "model", precision, step, graphs);
  }

  /// Releases whose recipes have a step as one CUDA graph.
  static bool is_2606(const MeasuredTable& table, std::size_t row) { return table.text(row, "release") >= "26.06"; }

  static std::string read_decoder(const MeasuredTable& table, std::size_t row, const char* column,
                                  std::string_view precision, MeasuredStep& step, bool one_kernel = false) {
    const std::string& name = table.text(row, column);
    const auto model =
        std::find_if(std::begin(kModels), std::end(kModels), [&](const Model& m) { return name == m.name; });
    if (name.starts_with("GPT OSS")) return "gpt-oss: too fast, cause not known";
    if (model == std::end(kModels)) return "model " + name;
    DecoderRun run{.config = model->config,
                   .sequence = table.count(row, "seq"),
                   .epilogues = one_kernel && model->experts,
                   .merged = true,
                   .passes = model->experts ? "compiled" : "library",
                   .product_an_expert = !one_kernel,
                   .further_tokens = model->further_tokens,
                   .wide_loss = true};
    if (precision != "BF16") run.fp8 = fp8_params(precision);
    step.model = decoder_graph(run);
    step.edges_are_layers = model->edges;
    if (name.starts_with("DeepSeekV3") && step.plan.pipeline_parallel > 1)
      step.layers = deepseek_layers(step.plan.pipeline_parallel, step.plan.interleave);
    return {};
  }
};

}  // namespace nemo_table

std::unique_ptr<TableKind> training_nemo_tables() {
  return std::make_unique<nemo_table::NemoTables>();
}

}  // namespace orrery::experiments
