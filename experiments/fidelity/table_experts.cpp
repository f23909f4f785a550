// Decode of mixture-of-experts models with experts on the host, by the experts system (docs/explain/expert-offload.md).
//
// `systems/kt_expert_placement.csv`: Qwen3-Next-80B-A3B in fp8 on four RTX 4090 and two Xeon 6454S, tokens/s by the
// share of experts on the GPUs and the rule that picks them (kt-kernel with SGLang). Three constants of the engine are
// fitted to the `uniform` rows of 0, 50 and 100 %; all others are predicted. `frequency` depends on how alike texts
// are: its texts are of 32 domains, which is fitted to its row of 50 %. `dynamic_update` says not what it updates.
// `systems/ktransformers_points.csv`: decode of DeepSeek-V3 in 4 bits on one RTX 4090 (or 4090D). Two constants of
// KTransformers 0.2 are fitted to its two rows of one socket.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/shipped_policy.hpp"
#include "experiments/fidelity/table_kind.hpp"
#include "experiments/systems/experts/engines.hpp"
#include "experiments/systems/experts/run.hpp"
#include "hw/cost/cost_model.hpp"
#include "models/transformer/hf_config.hpp"

namespace orrery::experiments {
namespace experts_tables {

using experts::Engine;
constexpr const Engine& kKtKernel = experts::kEngines[0];
constexpr const Engine& kKTransformers02 = experts::kEngines[1];

/// A config of one text that decodes, as read_config() would make it.
experts::Config decoding(const PartShelf& parts, const char* gpu, const char* model, hw::WeightFormat format,
                         const Engine& engine, const traces::RouterGenerator& router) {
  experts::Config config;
  const auto* part = parts.find<hw::GpuParams>(gpu);
  const auto* host = parts.find<hw::CpuParams>("xeon-6454s");
  const auto* link = parts.find<hw::LinkPart>("pcie4-x16");
  if (part == nullptr || host == nullptr || link == nullptr)
    sim::throw_fault({"catalog", ""}, fmt::format("the catalog lacks {}, xeon-6454s or pcie4-x16", gpu));
  config.gpu = hw::device_of(part->part);
  config.host = hw::device_of(host->part);
  config.link = link->part;
  config.model = models::load_model(fmt::format("catalog:{}", model), home_folder() / "models/catalog");
  config.formats = {.dtype = hw::DType::bf16, .attention = format, .ffn = format, .experts = format, .cache = {}};
  config.host_formats = config.formats;
  experts::MachineParams& machine = config.sections.machine;
  machine.host.efficiency = engine.efficiency;
  machine.host.layer_gap_s = engine.layer_gap_s;
  machine.step_gap_s = engine.step_gap_s;
  config.sections.workload.skip = 20;
  config.trace = traces::generate_router_trace(router, 1);
  config.sections.policies.schedule = shipped_policy(policies::register_expert_schedules, "expert_schedule", "host");
  config.sections.policies.cache = shipped_policy(policies::register_expert_caches, "expert_cache", "lru");
  config.sections.policies.order = shipped_policy(policies::register_expert_orders, "expert_order", "by_expert");
  return config;
}

double tokens_per_s(const experts::Config& config, double share) {
  const experts::Prices prices(config);
  const auto slots = layer_slots(config.expert_layers(), config.trace.experts, share, config.sections.policies.spread);
  const experts::RunTotals totals = experts::play(config, prices, slots);
  return static_cast<double>(totals.steps) / (static_cast<double>(totals.time_ps) * 1e-12);
}

class Placement final : public TableKind {
 public:
  std::string_view name() const override { return "kt_expert_placement"; }
  bool reads(std::string_view path) const override { return path == "systems/kt_expert_placement.csv"; }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    for (const std::string_view column : {"uniform", "random", "front_loading", "frequency"}) {
      traces::RouterGenerator router{.experts = 512, .top_k = 10, .tokens = 320, .layers = 48};
      if (column == "frequency") router.tokens = 2048, router.context = 64, router.domains = 32;
      experts::Config config;
      try {
        config = decoding(parts, "rtx-4090", "qwen3-next-80b-a3b", hw::WeightFormat::fp8, kKtKernel, router);
      } catch (const sim::ConfigError& error) {
        return out.skip_all(column, table, error.faults().front().message);
      }
      config.sections.machine.devices = 4;
      config.sections.machine.host.sockets = 2;
      sim::Node params = sim::Node::object();
      params.set("rule", sim::Node::string(column == "front_loading" ? "uniform" : std::string(column)));
      config.sections.policies.cache =
          shipped_policy(policies::register_expert_caches, "expert_cache", "static", params);
      if (column == "front_loading") config.sections.policies.spread = SlotSpread::front;
      out.each_row(column, table, [&](std::size_t row) {
        const double share = table.number(row, "gpu_expert_pct") / 100;
        out.add(column, row, table.number(row, column), tokens_per_s(config, share),
                {share > 0 && share < 1 ? "some on the host" : "all or none"});
      });
    }
    out.skip_all("dynamic_update", table, "what is updated when is not published");
  }
  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "gpu_expert_pct");
  }
};

class Points final : public TableKind {
 public:
  std::string_view name() const override { return "ktransformers"; }
  bool reads(std::string_view path) const override { return path == "systems/ktransformers_points.csv"; }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    constexpr std::string_view kDecode = "decode tokens/s";
    out.each_row(kDecode, table, [&](std::size_t row) {
      if (table.text(row, "decode_tok_s").empty()) return out.skip(kDecode, row, "no decode rate");
      if (!table.text(row, "engine").starts_with("KTransformers 0.2"))
        return out.skip(kDecode, row,
                        table.text(row, "engine") == "llama.cpp"
                            ? "llama.cpp: one row, which cannot say what of a host's two memories it reaches"
                            : "which experts its GPUs hold is not stated");
      // Experts are all on the host; their choices do not matter, so few layers of them are drawn.
      experts::Config config = decoding(parts, "rtx-4090", "deepseek-v3", hw::WeightFormat::int4, kKTransformers02,
                                        {.experts = 256, .top_k = 8, .tokens = 40, .layers = 1});
      config.sections.machine.host.sockets = table.text(row, "cpu").find("2 sockets") != std::string::npos ? 2 : 1;
      config.sections.model.active = table.count(row, "experts");
      config.sections.workload.context = table.count(row, "prompt_tokens");
      experts::draw_choices(config);  // drawn already: keeps the experts that count
      out.add(kDecode, row, table.number(row, "decode_tok_s"), tokens_per_s(config, 0),
              {table.text(row, "engine") == "KTransformers 0.2" ? "version 0.2" : "version 0.2.1"});
    });
  }
  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "cpu") + table.text(row, "experts") + table.text(row, "prompt_tokens");
  }
};

}  // namespace experts_tables

std::unique_ptr<TableKind> expert_placement_tables() {
  return std::make_unique<experts_tables::Placement>();
}
std::unique_ptr<TableKind> ktransformers_tables() {
  return std::make_unique<experts_tables::Points>();
}

}  // namespace orrery::experiments
