// `serving/sarathi_osdi24/*.csv`: iteration times of Yi-34B-200K on two A100-80GB under Sarathi-Serve's own engine
// (OSDI 2024 artifact): decodes alone, one prompt chunk alone, or both ("hybrid", sealed).
//
// Priced by the analytic models of the catalog, plus what the engine's CPU takes (pricing/host_time.hpp): launches one
// by one, which set the pace of small iterations, and a time for each sequence in the batch, which nothing hides. These
// two constants are fitted to the decode and prefill tables; hybrid iterations are predicted. Contexts of decodes are
// those of the scripts that made the tables (osdi-experiments/figure-2, table-2): prompts of 1,020 or 1,024 tokens and
// the first few tokens after them. The first batch of a process (Batch Id 0) is not covered: it warms up. Figure 2 is
// in s, table 2 and figure 9 are in ms.
#include <algorithm>

#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/table_kind.hpp"
#include "experiments/systems/serving/pricing/device_iteration.hpp"
#include "experiments/systems/serving/pricing/host_time.hpp"
#include "hw/cost/cost_model.hpp"
#include "models/transformer/transformer.hpp"

namespace orrery::experiments {
namespace sarathi_table {

constexpr std::string_view kFolder = "serving/sarathi_osdi24/";
constexpr const char* kPart = "a100-sxm4-80gb";
constexpr std::int64_t kRanks = 2;
constexpr std::int64_t kContext = 1024;  ///< tokens of a decode's context: the scripts', a few tokens away
constexpr double kLaunchLayer = 780e-6;  ///< s: fitted, four decode iterations of 46.8 to 48.8 ms, 60 layers
constexpr double kSequence = 1.15e-3;    ///< s for each decode in a batch: fitted to the decode table

/// What a cell of time holds, in s.
double unit_of(std::string_view stem) {
  return stem.starts_with("table2") || stem.starts_with("fig9") ? 1e-3 : 1;
}

/// The public config.json of 01-ai/Yi-34B-200K.
models::ModelConfig yi_34b() {
  models::ModelConfig config;
  config.name = "yi-34b-200k";
  config.architecture = "LlamaForCausalLM";
  config.hidden_size = 7168;
  config.intermediate_size = 20480;
  config.layers = 60;
  config.heads = 56;
  config.kv_heads = 8;
  config.head_dim = 128;
  config.vocab_size = 64000;
  config.max_position_embeddings = 200000;
  return config;
}

class SarathiIterations final : public TableKind {
 public:
  std::string_view name() const override { return "serving_sarathi"; }
  bool reads(std::string_view path) const override { return path.starts_with(kFolder); }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const auto* part = parts.find<hw::GpuParams>(kPart);
    if (part == nullptr) return out.skip_all("time", table, "the catalog has no A100-80GB");
    if (!table.has("batch_execution_time") || !table.has("batch_num_decode_tokens"))
      return out.skip_all("time", table, "no column batch_execution_time by numbers of tokens");
    const models::ModelConfig config = yi_34b();
    DeviceIterationModel exact(models::build_transformer(config, hw::DType::bf16, kRanks), hw::device_of(part->part));
    IterationModel& model = exact;
    HostStages stages;
    stages.launch_layer_s = kLaunchLayer;
    stages.sample_sequence_s = kSequence;
    const StagedHostTime host(stages, {});
    const double unit = unit_of(table.stem());
    out.each_row("time", table, [&](std::size_t row) {
      if (table.has("Batch Id") && table.number(row, "Batch Id") == 0)
        return out.skip("time", row, "the first batch of a process warms up");
      const auto tokens = [&](const char* column) { return static_cast<std::int64_t>(table.number(row, column)); };
      const std::int64_t decodes = tokens("batch_num_decode_tokens"), chunk = tokens("batch_num_prefill_tokens");
      BatchShape shape;
      Segment segment{.first = 0, .last = static_cast<std::int32_t>(config.layers), .tokens = decodes + chunk};
      if (chunk > 0) segment.prefill.add(chunk, 0);
      segment.decode = {decodes, decodes * kContext};
      shape.segments.push_back(segment);
      shape.logit_rows = decodes + (chunk > 0 ? 1 : 0);
      IterationPrice price = model.price(shape);
      shape.sequences = decodes;  // the constant is that of decodes
      host.apply(shape, price);
      const std::string_view regime = chunk == 0 ? "decode only" : decodes == 0 ? "prefill only" : "hybrid";
      out.add("time", row, unit * table.number(row, "batch_execution_time"), static_cast<double>(price.time_ps) * 1e-12,
              {regime});
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "batch_num_decode_tokens") + "x" + table.text(row, "batch_num_prefill_tokens");
  }
};

}  // namespace sarathi_table

std::unique_ptr<TableKind> serving_sarathi_tables() {
  return std::make_unique<sarathi_table::SarathiIterations>();
}

}  // namespace orrery::experiments
