// `moe/<stem>.csv`: one rank's fused MoE layer, bf16, by tokens, sizes, tensor and expert parallelism and load.
//
// Rows per expert come from the load's name (hw/base/expert_rows.hpp), time from hw/tiled/grouped.hpp. The tables do
// not say whether experts are gated: the models that are not (Nemotron 3, squared ReLU) are known by their sizes.
#include <fmt/format.h>

#include <charconv>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "experiments/fidelity/table_kind.hpp"
#include "hw/base/expert_rows.hpp"
#include "hw/tiled/grouped.hpp"

namespace orrery::experiments {
namespace {

/// "balanced", or "power_law_1.2".
std::optional<hw::ExpertLoad> load_of(std::string_view name) {
  constexpr std::string_view kPowerLaw = "power_law_";
  if (name == "balanced") return hw::ExpertLoad{};
  if (!name.starts_with(kPowerLaw)) return std::nullopt;
  const std::string_view number = name.substr(kPowerLaw.size());
  hw::ExpertLoad load;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), load.exponent);
  if (error != std::errc{} || end != number.data() + number.size() || load.exponent <= 0) return std::nullopt;
  return load;
}

/// Experts with squared ReLU and no gate: Nemotron 3 Nano (hidden 2688, 128 experts, 6 of them), Super and Ultra (512
/// experts, 22 of them); their public model configs.
bool is_gated(std::int64_t hidden, std::int64_t experts, std::int64_t top_k) {
  return !(hidden == 2688 && experts == 128 && top_k == 6) && !(experts == 512 && top_k == 22);
}

/// Rows of each expert by tokens, top_k, experts, ranks and load. Kept, for a calibration asks for the same ones in each
/// of its thousands of predictions.
class RoutedRows {
 public:
  const std::vector<std::int64_t>& of(std::int64_t tokens, std::int64_t top_k, std::int64_t experts, std::int64_t ranks,
                                      hw::ExpertLoad load) {
    const std::lock_guard lock(mutex_);
    auto& rows = rows_[{tokens, top_k, experts, ranks, load.exponent}];  // entries of a map stay where they are
    if (rows.empty()) rows = hw::expert_rows(tokens, top_k, experts, ranks, load);
    return rows;
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, double>, std::vector<std::int64_t>> rows_;
};

class MoeTables final : public TableKind {
 public:
  std::string_view name() const override { return "moe"; }
  bool reads(std::string_view path) const override { return path.starts_with("moe/"); }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const auto found = parts.for_table<hw::GpuParams>(table.stem());
    if (!found) return out.skip_all("time", table, "no part of the catalog stands for it");
    const hw::Weights weights = found.measured_as.starts_with("vllm_hot_cache") ? hw::Weights::hot : hw::Weights::cold;
    out.each_row("time", table, [&](std::size_t row) {
      const std::string& distribution = table.text(row, "distribution");
      const std::optional<hw::ExpertLoad> load = load_of(distribution);
      if (!load) return out.skip("time", row, fmt::format("load '{}' is not modelled", distribution));
      const std::int64_t tokens = table.count(row, "num_tokens"), top_k = table.count(row, "topk");
      const std::int64_t hidden = table.count(row, "hidden_size"), experts = table.count(row, "num_experts");
      const std::int64_t ranks = table.count(row, "moe_ep_size");
      if (experts > kMostExperts) return out.skip("time", row, "more experts than any layer has");
      if (top_k > experts || ranks > experts)
        return out.skip("time", row, "top_k or ranks beyond the number of experts");
      const hw::MoeLayer layer{.tokens = tokens,
                               .hidden = hidden,
                               .intermediate = table.count(row, "inter_size") / table.count(row, "moe_tp_size"),
                               .top_k = top_k,
                               .gated = is_gated(hidden, experts, top_k),
                               .expert_parallel = ranks > 1};
      const std::vector<std::int64_t>& rows = routed_.of(tokens, top_k, experts, ranks, *load);
      const double us = hw::moe_layer_time(found.entry->part, layer, rows, hw::DType::bf16, weights) * 1e6;
      const std::string_view batch = tokens <= 16     ? "tokens <= 16"
                                     : tokens <= 1024 ? "16 < tokens <= 1024"
                                                      : "tokens > 1024";
      out.add("time", row, table.number(row, "time_us"), us, {load->exponent == 0 ? "balanced" : "power law", batch});
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    std::string key;
    for (const char* column : {"num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size",
                               "moe_ep_size", "distribution"})
      key += table.text(row, column) + "x";
    return key;
  }

 private:
  mutable RoutedRows routed_;
};

}  // namespace

std::unique_ptr<TableKind> moe_tables() {
  return std::make_unique<MoeTables>();
}

}  // namespace orrery::experiments
