// Oracles of router traces: what exact programs say of the choices in public ones. Errors must be 0.
//
// `systems/moe_router_cache_oracle.csv`: misses of expert caches, request by request (lru_list, lfu_low_id, min) and
// token by token (lru_token, min_token), and of a fixed set (static). Columns published_* are another program's.
// `systems/moe_router_profile_qwen3.csv`: reuse, SRP, unions and loads. Batches that its authors drew at random are
// held against the expectation, as a metric of their own. Covered are the layers and domains whose traces are here;
// mixed batches where all four domains are.
// `systems/eplb_oracle.csv`: slots of EPLB's example, one by one.
// `systems/moe_ep_imbalance.csv`: EPLB's example (rows E), and imbalance on later tokens (rows Q, means over 5 layers
// and 4 domains there; here over the domains of layer 24).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <sstream>

#include "experiments/experts/cache_trial.hpp"
#include "experiments/experts/placement_trial.hpp"
#include "experiments/fidelity/shipped_policy.hpp"
#include "experiments/fidelity/table_kind.hpp"
#include "policies/expert_placement/eplb.hpp"
#include "traces/router/profile.hpp"

namespace orrery::experiments {
namespace moe_routing {

namespace fs = std::filesystem;

constexpr std::string_view kFolder = "traces/moe_router";
constexpr std::string_view kModel = "qwen3_30b_a3b";
constexpr std::size_t kDomains = 4;  ///< that were recorded

/// The trace of a layer and domain; null where its file is not there.
class TraceShelf {
 public:
  explicit TraceShelf(fs::path root) : folder_(std::move(root) / kFolder) {}

  const traces::RouterTrace* find(const std::string& domain, std::int64_t layer) {
    const std::string name = fmt::format("{}.layer{}.{}.csv", kModel, layer, domain);
    const auto [at, fresh] = traces_.try_emplace(name);
    if (fresh && fs::exists(folder_ / name))
      at->second = traces::read_router_trace((folder_ / name).string(), {.experts = 128, .context = 512});
    return at->second ? &*at->second : nullptr;
  }
  /// Those of all domains of a layer, by name.
  std::vector<const traces::RouterTrace*> layer(std::int64_t layer) {
    std::vector<const traces::RouterTrace*> out;
    const std::string start = fmt::format("{}.layer{}.", kModel, layer);
    std::vector<std::string> names;
    if (fs::is_directory(folder_))
      for (const auto& file : fs::directory_iterator(folder_)) names.push_back(file.path().filename().string());
    std::ranges::sort(names);
    for (const std::string& name : names)
      if (name.starts_with(start) && name.ends_with(".csv"))
        out.push_back(find(name.substr(start.size(), name.size() - start.size() - 4), layer));
    return out;
  }

 private:
  fs::path folder_;
  std::map<std::string, std::optional<traces::RouterTrace>> traces_;
};

class CacheOracle final : public TableKind {
 public:
  std::string_view name() const override { return "moe_cache_oracle"; }
  bool reads(std::string_view path) const override { return path == "systems/moe_router_cache_oracle.csv"; }

  void predict(const MeasuredTable& table, const PartShelf&, Predictions& out) const override {
    struct Column {
      std::string_view column;
      const char* policy;
      LookUp look_up;
    };
    static constexpr Column kColumns[] = {{"lru_list", "lru", LookUp::request}, {"lfu_low_id", "lfu", LookUp::request},
                                          {"min", "belady", LookUp::request},   {"static", "static", LookUp::request},
                                          {"lru_token", "lru", LookUp::token},  {"min_token", "belady", LookUp::token}};
    TraceShelf shelf(table.root());
    for (const Column& column : kColumns) {
      const auto policy = shipped_policy(policies::register_expert_caches, "expert_cache", column.policy);
      out.each_row(column.column, table, [&](std::size_t row) {
        const traces::RouterTrace* trace = shelf.find(table.text(row, "domain"), 24);
        if (trace == nullptr) return out.skip(column.column, row, "the trace of its domain is not there");
        const CacheTrial trial{.slots = table.count(row, "capacity"), .look_up = column.look_up};
        out.add(column.column, row, table.number(row, column.column),
                static_cast<double>(play_layer(*trace, 0, policy, trial).misses));
      });
    }
  }
  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "domain") + table.text(row, "capacity");
  }
};

/// The number at the end of "reuse_lag32".
std::int64_t number_at_end(std::string_view text) {
  const std::size_t at = text.find_last_not_of("0123456789") + 1;
  std::int64_t value = 0;
  std::from_chars(text.data() + at, text.data() + text.size(), value);
  return value;
}

class RouterProfiles final : public TableKind {
 public:
  std::string_view name() const override { return "moe_router_profile"; }
  bool reads(std::string_view path) const override { return path == "systems/moe_router_profile_qwen3.csv"; }

  void predict(const MeasuredTable& table, const PartShelf&, Predictions& out) const override {
    TraceShelf shelf(table.root());
    out.each_row("figure", table, [&](std::size_t row) {
      const std::string& metric = table.text(row, "metric");
      const bool drawn = metric.starts_with("union_random") || metric.find("_imbalance_") != std::string::npos;
      const std::string_view column = drawn ? "drawn at random" : "figure";
      const std::int64_t layer = table.integer(row, "layer");
      const std::string& domain = table.text(row, "domain");
      std::vector<const traces::RouterTrace*> found;
      if (domain == "mixed") {
        found = shelf.layer(layer);
        if (found.size() < kDomains) return out.skip(column, row, "not all four domains are there");
      } else if (const traces::RouterTrace* one = shelf.find(domain, layer)) {
        found.push_back(one);
      } else {
        return out.skip(column, row, "the trace of its layer and domain is not there");
      }
      const std::optional<double> figure = figure_of(metric, found);
      if (!figure) return out.skip(column, row, "no such figure");
      // The table rounds to so many digits, and percent to two.
      const double unit = metric.starts_with("srp") ? 1e-2 : metric == "top_expert_over_mean" ? 1e-3 : 1e-4;
      out.add(column, row, table.number(row, "value"), drawn ? *figure : std::round(*figure / unit) * unit);
    });
  }
  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "domain") + table.text(row, "layer") + table.text(row, "metric");
  }

 private:
  /// Texts of several domains as one, for figures that only count.
  static traces::RouterTrace together(const std::vector<const traces::RouterTrace*>& found) {
    traces::RouterTrace all = *found.front();
    for (std::size_t i = 1; i < found.size(); ++i)
      all.layers[0].choices.insert(all.layers[0].choices.end(), found[i]->layers[0].choices.begin(),
                                   found[i]->layers[0].choices.end());
    return all;
  }

  static std::optional<double> figure_of(const std::string& metric,
                                         const std::vector<const traces::RouterTrace*>& found) {
    const traces::RouterTrace& one = *found.front();
    const std::int64_t number = number_at_end(metric);
    if (metric.starts_with("reuse_lag")) return traces::reuse(one, 0, number);
    if (metric == "reuse_chance") return traces::reuse_by_chance(one, 0);
    if (metric.starts_with("srp_m")) return 100 * traces::segment_predictability(one, 0, number);
    if (metric.starts_with("union_consecutive_")) return traces::union_of_consecutive(one, 0, number);
    if (metric.starts_with("union_random_")) return traces::union_of_random(together(found), 0, number);
    const std::vector<std::int64_t> loads = traces::expert_loads(one, 0, 0, one.tokens());
    if (metric == "experts_for_95pct") return static_cast<double>(traces::experts_for_share(loads, 0.95));
    if (metric == "experts_for_99pct") return static_cast<double>(traces::experts_for_share(loads, 0.99));
    if (metric == "top_expert_over_mean") return traces::profile_router(one, 0).busiest;
    if (metric.starts_with("ep")) return imbalance_of(together(found), metric, number);
    return {};
  }

  /// "ep16_imbalance_batch256": expected (max - mean) / mean of random batches. Pieces that take every n-th token are
  /// as good as random ones: they hold no two tokens of one text close together.
  static double imbalance_of(const traces::RouterTrace& all, const std::string& metric, std::int64_t batch) {
    std::int64_t gpus = 0;
    std::from_chars(metric.data() + 2, metric.data() + metric.size(), gpus);
    policies::ExpertPlacementView view = placement_view(all, {0, all.tokens()});
    view.gpus = gpus;
    view.slots = view.experts();
    const auto contiguous =
        shipped_policy(policies::register_expert_placements, "expert_placement", "contiguous").make()->place(view);
    const traces::RouterTrace apart = traces::side_by_side(all, batch);
    return judge_placement(apart, {0, apart.tokens()}, batch, contiguous, gpus).mean();
  }
};

/// Whole numbers between blanks.
template <class T>
std::vector<T> numbers(const std::string& text) {
  std::vector<T> out;
  std::istringstream in(text);
  for (T value = 0; in >> value;) out.push_back(value);
  return out;
}

/// The machine of EPLB's example.
constexpr policies::EplbMachine kExample{.slots = 16, .gpus = 8, .nodes = 2, .groups = 4};

class EplbOracle final : public TableKind {
 public:
  std::string_view name() const override { return "eplb_oracle"; }
  bool reads(std::string_view path) const override { return path == "systems/eplb_oracle.csv"; }

  void predict(const MeasuredTable& table, const PartShelf&, Predictions& out) const override {
    constexpr std::string_view kSlots = "slots that agree";
    out.each_row(kSlots, table, [&](std::size_t row) {
      const auto wanted = numbers<std::int64_t>(table.text(row, "physical_to_logical"));
      const auto loads = numbers<double>(table.text(row, "weights"));
      if (loads.size() != 12 || wanted.size() != 16)
        return out.skip(kSlots, row, "not the example of 12 experts and 16 slots");
      const std::vector<std::int64_t> got = policies::eplb_slots(loads, kExample);
      double alike = 0;
      for (std::size_t i = 0; i < wanted.size(); ++i) alike += wanted[i] == got[i] ? 1 : 0;
      out.add(kSlots, row, static_cast<double>(wanted.size()), alike);
    });
  }
  std::string shape_key(const MeasuredTable& table, std::size_t row) const override { return table.text(row, "layer"); }
};

class EpImbalance final : public TableKind {
 public:
  std::string_view name() const override { return "moe_ep_imbalance"; }
  bool reads(std::string_view path) const override { return path == "systems/moe_ep_imbalance.csv"; }

  void predict(const MeasuredTable& table, const PartShelf&, Predictions& out) const override {
    TraceShelf shelf(table.root());
    constexpr std::string_view kExampleRows = "EPLB's example", kLater = "1 + imbalance, later tokens";
    out.each_row(kExampleRows, table, [&](std::size_t row) {
      const std::string& source = table.text(row, "source");
      if (source == "T") return out.skip(kLater, row, "the routing of DeepSeek-R1's requests is not public");
      if (source == "E") return example(table, row, kExampleRows, out);
      const std::int64_t gpus = table.count(row, "gpus"), slots = table.count(row, "slots");
      if (table.text(row, "scope") != "later tokens")
        return out.skip(kLater, row, "judged on the tokens it was planned on: within rounding of no imbalance");
      const std::string policy = table.text(row, "policy").starts_with("EPLB") ? "eplb" : "contiguous";
      double sum = 0, domains = 0;
      for (const traces::RouterTrace* trace : shelf.layer(24)) {
        policies::ExpertPlacementView view = placement_view(*trace, {0, trace->tokens() / 2});
        view.gpus = gpus;
        view.slots = slots;
        const auto placed =
            shipped_policy(policies::register_expert_placements, "expert_placement", policy).make()->place(view);
        sum += judge_placement(*trace, {trace->tokens() / 2, trace->tokens()}, 0, placed, gpus).mean();
        ++domains;
      }
      if (domains == 0) return out.skip(kLater, row, "no router trace of layer 24 is there");
      out.add(kLater, row, 1 + table.number(row, "imbalance"), 1 + sum / domains,
              {policy == "eplb" ? "EPLB" : "contiguous"});
    });
  }
  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "policy") + table.text(row, "gpus") + table.text(row, "slots");
  }

 private:
  /// Rows "example layer 0" and 1 are of the weights in eplb_oracle.csv, beside this table.
  static void example(const MeasuredTable& table, std::size_t row, std::string_view metric, Predictions& out) {
    if (!fs::exists(table.root() / "systems/eplb_oracle.csv"))
      return out.skip(metric, row, "systems/eplb_oracle.csv is not there");
    const MeasuredTable oracle = MeasuredTable::read(table.root(), "systems/eplb_oracle.csv");
    const std::int64_t layer = number_at_end(table.text(row, "model"));
    for (std::size_t i = 0; i < oracle.rows(); ++i) {
      if (oracle.integer(i, "layer") != layer) continue;
      const auto loads = numbers<double>(oracle.text(i, "weights"));
      const auto placed = policies::even_slots(policies::eplb_slots(loads, kExample), kExample.gpus);
      const double got = traces::imbalance(policies::gpu_loads(placed, loads, kExample.gpus));
      return out.add(metric, row, table.number(row, "imbalance"), std::round(got * 1e4) / 1e4);
    }
    out.skip(metric, row, "its weights are not in eplb_oracle.csv");
  }
};

}  // namespace moe_routing

std::unique_ptr<TableKind> moe_cache_oracle_tables() {
  return std::make_unique<moe_routing::CacheOracle>();
}
std::unique_ptr<TableKind> moe_router_profile_tables() {
  return std::make_unique<moe_routing::RouterProfiles>();
}
std::unique_ptr<TableKind> eplb_oracle_tables() {
  return std::make_unique<moe_routing::EplbOracle>();
}
std::unique_ptr<TableKind> moe_ep_imbalance_tables() {
  return std::make_unique<moe_routing::EpImbalance>();
}

}  // namespace orrery::experiments
