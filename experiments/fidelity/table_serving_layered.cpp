// `systems/layered_prefill_repo.csv`: the README of the authors of Layered Prefill (MLSys 2026). Covered are the runs
// of one prompt of 8,192 tokens through Qwen3-30B-A3B on two H100 of 80 GB, in chunks of 512 to 8,192 tokens ("chunked"
// rows of duration_vs_chunk_size, read from a figure, +-3 ms).
//
// Which board, and how the two reach each other, the README does not say. Each row is predicted for both that there
// are, as metrics of their own: "prompt (SXM)" over NVLink, "prompt (PCIe)" for two PCIe boards without a bridge.
// Chunks are priced by the analytic models alone: no time of a host, no constant of this table.
#include <algorithm>

#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/table_kind.hpp"
#include "experiments/systems/serving/pricing/device_iteration.hpp"
#include "hw/cost/cost_model.hpp"
#include "models/transformer/hf_config.hpp"
#include "models/transformer/transformer.hpp"

namespace orrery::experiments {
namespace layered_table {

constexpr std::int64_t kRanks = 2;
constexpr std::int64_t kPrompt = 8192;  ///< tokens
constexpr std::string_view kSxm = "prompt (SXM)", kPcie = "prompt (PCIe)";

/// Seconds of a prompt in chunks of `chunk` tokens, one after the other.
double prompt_s(IterationModel& model, std::int32_t layers, std::int64_t chunk) {
  double all_s = 0;
  for (std::int64_t done = 0; done < kPrompt; done += chunk) {
    const std::int64_t tokens = std::min(chunk, kPrompt - done);
    BatchShape shape;
    Segment segment{.first = 0, .last = layers, .tokens = tokens};
    segment.prefill.add(tokens, done);
    shape.segments.push_back(segment);
    shape.logit_rows = done + tokens == kPrompt ? 1 : 0;
    shape.sequences = 1;
    all_s += static_cast<double>(model.price(shape).time_ps) * 1e-12;
  }
  return all_s;
}

class LayeredRuns final : public TableKind {
 public:
  std::string_view name() const override { return "serving_layered"; }
  bool reads(std::string_view path) const override { return path == "systems/layered_prefill_repo.csv"; }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const auto* sxm = parts.find<hw::GpuParams>("h100-sxm5-80gb");
    const auto* pcie = parts.find<hw::GpuParams>("h100-pcie-80gb");
    if (sxm == nullptr || pcie == nullptr) return out.skip_all(kSxm, table, "the catalog has no H100 of 80 GB");
    const models::ModelConfig config = models::load_model("catalog:qwen3-30b-a3b", home_folder() / "models/catalog");
    hw::GpuParams apart = pcie->part;
    apart.link.peers = 1;
    DeviceIterationModel over_nvlink(models::build_transformer(config, hw::DType::bf16, kRanks),
                                     hw::device_of(sxm->part));
    DeviceIterationModel over_pcie(models::build_transformer(config, hw::DType::bf16, kRanks), hw::device_of(apart));
    const auto layers = static_cast<std::int32_t>(config.layers);
    const auto each = [&](std::string_view metric, DeviceIterationModel& model) {
      out.each_row(metric, table, [&](std::size_t row) {
        if (table.text(row, "item") != "duration_vs_chunk_size")
          return out.skip(metric, row, "the lengths of its requests are not in the table");
        if (table.text(row, "metric") != "prefill_runtime_total")
          return out.skip(metric, row, "a part of a prompt's time, or bytes (study layered_prefill_bytes)");
        const auto chunk = static_cast<std::int64_t>(table.number(row, "x"));
        if (chunk < 1) return out.skip(metric, row, "no chunk");
        out.add(metric, row, 1e-3 * table.number(row, "value"), prompt_s(model, layers, chunk),
                {chunk < 2048 ? "chunk < 2048" : "chunk >= 2048"});
      });
    };
    each(kSxm, over_nvlink);
    each(kPcie, over_pcie);
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override { return table.text(row, "x"); }
};

}  // namespace layered_table

std::unique_ptr<TableKind> serving_layered_tables() {
  return std::make_unique<layered_table::LayeredRuns>();
}

}  // namespace orrery::experiments
