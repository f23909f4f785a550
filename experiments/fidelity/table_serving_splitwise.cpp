// `serving/splitwise_perf_power.csv`: time of a prompt batch and of a token (ms) of Llama-2-70B and BLOOM-176B on
// tensor-parallel A100 and H100 (Splitwise's published measurements, vLLM of 2023, fp16).
//
// Priced by the analytic models of the catalog. Of the host, what an iteration, a sequence and a request take is that
// of profile `vllm_2024` (fitted to another table). Its kernels are launched one by one, also in decodes, and launches
// are a floor: kLaunch is fitted to the tokens of batch 1 on four ranks of each machine. On H100 that engine's products
// reached kRateShare of the rate and kBandwidthShare of the bandwidth that later libraries do (a build of 2023, before
// kernels for Hopper were in it): fitted to prompts and tokens of batch 1 on two ranks. All else is predicted. Capped
// parts: half of the TDP (Splitwise, section VI: 50 % a GPU). A token's context is the prompt and half of what is
// generated.
//
// Not covered: BLOOM (another architecture), batches of 64 on two ranks (prompts at an eighth of batch 32, tokens below
// those of batch 32: they did not run as one), e2e_time (the data's README says to ignore it), power (idle and active
// power of the parts are assumptions).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/table_kind.hpp"
#include "experiments/systems/serving/pricing/device_iteration.hpp"
#include "experiments/systems/serving/pricing/host_time.hpp"
#include "hw/cost/cost_model.hpp"
#include "models/transformer/transformer.hpp"

namespace orrery::experiments {
namespace {

/// A machine of the table.
struct Machine {
  std::string_view hardware, part;
  double launch_s;     ///< of the host for a kernel: fitted, see above
  double tdp_share;    ///< of the part's, where it is capped
  bool later_kernels;  ///< that libraries of 2023 did not have
  std::string_view regime;
};
constexpr std::array kMachines{
    Machine{"a100-80gb", "a100-sxm4-80gb", 38e-6, 1, false, "a100"},
    Machine{"h100-80gb", "h100-sxm5-80gb", 24e-6, 1, true, "h100"},
    Machine{"h100-80gb-pcap", "h100-sxm5-80gb", 24e-6, 0.5, true, "h100 capped"},
};
constexpr double kRateShare = 0.75, kBandwidthShare = 0.8;  ///< fitted, see above

/// Regimes, which live as long as the program.
constexpr std::array<std::string_view, 6> kRegimes{"a100 x2", "a100 x4",        "h100 x2",
                                                   "h100 x4", "h100 capped x2", "h100 capped x8"};

std::string_view regime_of(const Machine& machine, std::int64_t ranks) {
  const std::string name = fmt::format("{} x{}", machine.regime, ranks);
  const auto* at = std::find(kRegimes.begin(), kRegimes.end(), name);
  return at == kRegimes.end() ? machine.regime : *at;
}

hw::GpuParams part_of(const Machine& machine, hw::GpuParams gpu) {
  gpu.power.tdp_w *= machine.tdp_share;
  if (!machine.later_kernels) return gpu;
  gpu.peak.fp16 *= kRateShare;
  gpu.gemm.memory_efficiency *= kBandwidthShare;
  return gpu;
}

class SplitwiseTimes final : public TableKind {
 public:
  std::string_view name() const override { return "serving_splitwise"; }
  bool reads(std::string_view path) const override { return path == "serving/splitwise_perf_power.csv"; }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const models::ModelConfig config = models::load_model("catalog:llama-2-70b", home_folder() / "models/catalog");
    std::map<std::pair<std::string_view, std::int64_t>, std::unique_ptr<DeviceIterationModel>> models;
    out.each_row("prompt", table, [&](std::size_t row) {
      const auto skip = [&](std::string_view why) {
        out.skip("prompt", row, why);
        out.skip("token", row, why);
      };
      if (table.text(row, "model") != "llama2-70b") return skip("BLOOM is not modelled");
      const std::string& hardware = table.text(row, "hardware");
      const auto* machine =
          std::find_if(kMachines.begin(), kMachines.end(), [&](const Machine& m) { return m.hardware == hardware; });
      if (machine == kMachines.end()) return skip(fmt::format("'{}' is not known", hardware));
      const auto* part = parts.find<hw::GpuParams>(machine->part);
      if (part == nullptr) return skip(fmt::format("the catalog has no {}", machine->part));
      const std::int64_t ranks = table.count(row, "tensor_parallel");
      auto& exact = models[{machine->hardware, ranks}];
      if (!exact) {
        exact = std::make_unique<DeviceIterationModel>(models::build_transformer(config, hw::DType::fp16, ranks),
                                                       hw::device_of(part_of(*machine, part->part)));
      }
      const std::unique_ptr<HostTime> host = host_of(*machine);
      const std::int64_t prompt = table.count(row, "prompt_size"), batch = table.count(row, "batch_size");
      const std::int64_t answer = table.count(row, "token_size");
      if (batch == 64 && ranks == 2) return skip("batches of 64 on two ranks did not run as one");
      const std::string_view regime = regime_of(*machine, ranks);
      const bool capped = machine->tdp_share < 1;  // apart: their prompts are 1.3 times the others' in every row
      const auto milliseconds = [&](const Segment& segment) {
        IterationModel& model = *exact;
        BatchShape shape;
        shape.segments.push_back(segment);
        shape.sequences = shape.logit_rows = batch;
        IterationPrice price = model.price(shape);
        host->apply(shape, price);
        return static_cast<double>(price.time_ps) * 1e-9;
      };
      Segment prompts{.first = 0, .last = static_cast<std::int32_t>(config.layers), .tokens = prompt * batch};
      for (std::int64_t i = 0; i < batch; ++i) prompts.prefill.add(prompt, 0);
      Segment tokens{.first = 0, .last = static_cast<std::int32_t>(config.layers), .tokens = batch};
      tokens.decode = {batch, batch * (prompt + answer / 2)};
      ServedRun run{"ttft", std::string(machine->part), "vLLM of 2023", "vllm_v0"};
      out.add(capped ? "prompt (capped)" : "prompt", row, table.number(row, "prompt_time"),
              host->request_s() * 1e3 + milliseconds(prompts), {regime}, run);
      run.figure = "tpot";
      out.add(capped ? "token (capped)" : "token", row, table.number(row, "token_time"), milliseconds(tokens), {regime},
              run);
    });
  }

  /// `vllm_2024` without captured graphs, at the pace of the machine's CPU.
  static std::unique_ptr<HostTime> host_of(const Machine& machine) {
    HostRegistry hosts("host");
    register_host_times(hosts);
    sim::Node profile = sim::Node::object();
    profile.set("graph_tokens", sim::Node::integer(0));
    profile.set("launch_kernel", sim::Node::string(fmt::format("{} s", machine.launch_s)));
    sim::Faults faults;
    auto host = hosts.prepare("vllm_2024", &profile, {}, faults).make(std::nullopt);
    faults.throw_if_any();
    return host;
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    std::string key;
    for (const char* column : {"model", "hardware", "prompt_size", "batch_size", "token_size", "tensor_parallel"})
      key += table.text(row, column) + "x";
    return key;
  }
};

}  // namespace

std::unique_ptr<TableKind> serving_splitwise_tables() {
  return std::make_unique<SplitwiseTimes>();
}

}  // namespace orrery::experiments
