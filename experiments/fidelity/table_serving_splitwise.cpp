// `serving/splitwise_perf_power.csv`: time of a prompt batch and of a token (ms) of Llama-2-70B and BLOOM-176B on
// tensor-parallel A100 and H100 (Splitwise's published measurements, vLLM of 2023, fp16).
//
// Priced by the analytic models of the catalog. What the CPU of that engine took is one constant of an iteration that
// nothing hides, kSerial, fitted to the token times of A100 (two and four ranks); prompts and H100 are predicted. A
// token's context is the prompt and half of what is generated. Not covered: BLOOM (another architecture), parts under a
// power cap, prompts of batch 64 on two ranks (measured at an eighth of batch 32: not in one batch), e2e_time (the
// data's README says to ignore it), power (idle and active power of the parts are assumptions).
#include <fmt/format.h>

#include <map>

#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/table_kind.hpp"
#include "experiments/systems/serving/pricing/device_iteration.hpp"
#include "experiments/systems/serving/pricing/host_time.hpp"
#include "hw/cost/cost_model.hpp"
#include "models/transformer/transformer.hpp"

namespace orrery::experiments {
namespace {

constexpr double kSerial = 9e-3;  ///< s an iteration: fitted to the token times of A100

class SplitwiseTimes final : public TableKind {
 public:
  std::string_view name() const override { return "serving_splitwise"; }
  bool reads(std::string_view path) const override { return path == "serving/splitwise_perf_power.csv"; }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const models::ModelConfig config = models::load_model("catalog:llama-2-70b", home_folder() / "models/catalog");
    HostStages stages;
    stages.schedule_s = kSerial;
    const StagedHostTime host(stages, {});
    std::map<std::pair<std::string, std::int64_t>, std::unique_ptr<DeviceIterationModel>> models;
    out.each_row("prompt", table, [&](std::size_t row) {
      const auto skip = [&](std::string_view why) {
        out.skip("prompt", row, why);
        out.skip("token", row, why);
      };
      if (table.text(row, "model") != "llama2-70b") return skip("BLOOM is not modelled");
      const std::string& hardware = table.text(row, "hardware");
      const char* name = hardware == "a100-80gb"   ? "a100-sxm4-80gb"
                         : hardware == "h100-80gb" ? "h100-sxm5-80gb"
                                                   : nullptr;
      if (name == nullptr) return skip("a part under a power cap");
      const auto* part = parts.find<hw::GpuParams>(name);
      if (part == nullptr) return skip(fmt::format("the catalog has no {}", name));
      const std::int64_t ranks = table.count(row, "tensor_parallel");
      auto& exact = models[{name, ranks}];
      if (!exact) {
        exact = std::make_unique<DeviceIterationModel>(models::build_transformer(config, hw::DType::fp16, ranks),
                                                       hw::device_of(part->part));
      }
      const std::int64_t prompt = table.count(row, "prompt_size"), batch = table.count(row, "batch_size");
      const std::int64_t answer = table.count(row, "token_size");
      const std::string_view regime =
          hardware == "a100-80gb" ? (ranks == 2 ? "a100 x2" : "a100 x4") : (ranks == 2 ? "h100 x2" : "h100 x4");
      const auto milliseconds = [&](const Segment& segment) {
        IterationModel& model = *exact;
        BatchShape shape;
        shape.segments.push_back(segment);
        shape.sequences = shape.logit_rows = batch;
        IterationPrice price = model.price(shape);
        host.apply(shape, price);
        return static_cast<double>(price.time_ps) * 1e-9;
      };
      Segment prompts{.first = 0, .last = static_cast<std::int32_t>(config.layers), .tokens = prompt * batch};
      for (std::int64_t i = 0; i < batch; ++i) prompts.prefill.add(prompt, 0);
      Segment tokens{.first = 0, .last = static_cast<std::int32_t>(config.layers), .tokens = batch};
      tokens.decode = {batch, batch * (prompt + answer / 2)};
      ServedRun run{"ttft", name, "vLLM of 2023", "vllm_v0"};
      if (batch == 64 && ranks == 2) {
        out.skip("prompt", row, "prompts of batch 64 on two ranks did not run in one batch");
      } else {
        out.add("prompt", row, table.number(row, "prompt_time"), milliseconds(prompts), {regime}, run);
      }
      run.figure = "tpot";
      out.add("token", row, table.number(row, "token_time"), milliseconds(tokens), {regime}, run);
    });
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
