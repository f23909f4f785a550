// `training/mist_interference.csv`: kernels, a collective and copies both ways, started at once on every device of a
// cluster; time until all are done (Mist, Zhu et al., EuroSys 2025, repository).
//
// Rows with one kind of work say what it takes alone: a line through them gives copies and collectives of every other
// row of the cluster, and how many times as fast as the part's own model products are. Rows with several are
// predicted by `shares`, whose constants are fitted on every fifth of them, by Mist's published `factors`, and with
// nothing slowed.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "experiments/fidelity/shipped_policy.hpp"
#include "experiments/fidelity/table_kind.hpp"
#include "hw/cost/cost_model.hpp"
#include "hw/interference/shares.hpp"
#include "sim/relative_line.hpp"

namespace orrery::experiments {
namespace interference_table {

using hw::PerActivity;

constexpr const char* kMegabytes[] = {"", "gpu_to_gpu_mbytes", "cpu_to_gpu_mbytes", "gpu_to_cpu_mbytes"};

constexpr std::string_view kShares = "together";  // the metric of the model whose constants are fitted here

/// Machines that Mist measured on: what they share, and whose factors stand for them. Nodes of one count are not those
/// of another: copies alone differ by a tenth.
struct Machine {
  const char *gpu, *part, *platform;
  bool one_node;
  hw::SharesParams shares;
  const char* regime;
};
const std::array kMachines{
    Machine{"a100-sxm4-40gb", "a100-sxm4-40gb", "a100-sxm4-40gb", true, {}, "A100, one node"},
    Machine{"a100-sxm4-40gb",
            "a100-sxm4-40gb",
            "a100-sxm4-40gb",
            false,
            {.network_collective = 0.15, .network_link = 1, .host_copy = 0.5},
            "A100, several nodes"},
    Machine{"v100-sxm2-16gb",
            "v100-sxm2-16gb",
            "v100-sxm2-32gb",
            true,
            {.host_copy = 1, .host_collective = 0.93, .host_kernels = 0.36},
            "V100, one node"},
    Machine{"v100-sxm2-16gb",
            "v100-sxm2-16gb",
            "v100-sxm2-32gb",
            false,
            {.network_link = 1, .host_copy = 1, .host_collective = 0.67, .host_kernels = 0.26},
            "V100, several nodes"},
};

/// Where a collective runs: the cluster, and the group that it spans.
std::string cluster_of(const MeasuredTable& table, std::size_t row) {
  std::string key = table.text(row, "gpu");
  for (const char* column : {"nodes", "gpus_per_node", "intra_group_size", "inter_group_size"})
    key += " " + table.text(row, column);
  return key;
}

/// Sizes of a row's work, in the order of hw::Activity; of products any figure above 0.
PerActivity sizes_of(const MeasuredTable& table, std::size_t row) {
  PerActivity sizes{table.number(row, "compute_n"), 0, 0, 0};
  for (std::size_t i = 1; i < hw::kActivities; ++i) sizes[i] = table.number(row, kMegabytes[i]);
  return sizes;
}

std::size_t at_once(const PerActivity& sizes) {
  return static_cast<std::size_t>(std::count_if(sizes.begin(), sizes.end(), [](double size) { return size > 0; }));
}

class InterferenceTable final : public TableKind {
 public:
  std::string_view name() const override { return "training_interference"; }
  bool reads(std::string_view path) const override { return path == "training/mist_interference.csv"; }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const Lines lines = alone_lines(table);
    const std::map<std::string, double> speeds = product_speeds(table, parts);
    std::map<const Machine*, std::size_t> rows;
    for (const std::string_view metric : {kShares, std::string_view("factors"), std::string_view("none")}) {
      rows.clear();
      out.each_row(metric, table, [&](std::size_t row) {
        const PerActivity sizes = sizes_of(table, row);
        const std::size_t several = at_once(sizes);
        if (several < 2) return out.skip(metric, row, "one kind of work: it says what that takes alone");
        const bool one_node = table.count(row, "nodes") == 1;
        const Machine* machine = nullptr;
        for (const Machine& known : kMachines)
          if (table.text(row, "gpu") == known.gpu && one_node == known.one_node) machine = &known;
        if (machine == nullptr) return out.skip(metric, row, "no constants of " + table.text(row, "gpu"));
        const auto* gpu = parts.find<hw::GpuParams>(machine->part);
        if (gpu == nullptr) return out.skip(metric, row, "no part of the catalog is a " + std::string(machine->part));
        PerActivity alone{};
        if (sizes[0] > 0) {
          const double model = product_ms(*gpu, table, row);
          const auto measured = speeds.find(table.text(row, "gpu"));
          alone[0] = measured == speeds.end() ? model : model / measured->second;
        }
        for (std::size_t i = 1; i < hw::kActivities; ++i) {
          if (sizes[i] <= 0) continue;
          const auto line = lines.find({cluster_of(table, row), i});
          if (line == lines.end()) return out.skip(metric, row, "no row of its cluster has this work alone");
          alone[i] = line->second.start + line->second.slope * sizes[i];
        }
        const auto reach =
            table.count(row, "inter_group_size") > 1 ? hw::CollectiveReach::network : hw::CollectiveReach::node;
        const auto model = metric == kShares ? hw::make_shares(machine->shares) : shipped(metric, *machine);
        constexpr const char* kHowMany[] = {"", "", "two at once", "three at once", "four at once"};
        out.add(metric, row, table.number(row, "latency_ms"), hw::together_s(*model, alone, reach),
                {machine->regime, kHowMany[several], rows[machine]++ % 5 == 0 ? "fitted" : "not fitted"});
      });
    }
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    std::string key = cluster_of(table, row);
    for (const double size : sizes_of(table, row)) key += " " + std::to_string(size);
    return key;
  }

 private:
  /// ms over MB, by cluster and activity.
  using Lines = std::map<std::pair<std::string, std::size_t>, sim::RelativeLine>;

  /// Sizes within a factor of four do not say what a start costs: then there is none.
  static sim::RelativeLine alone_line(const std::vector<sim::LinePoint>& points) {
    const auto [least, most] =
        std::minmax_element(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
    if (most->x >= 4 * least->x) return sim::fit_relative_line(points);
    double sum = 0, squares = 0;
    for (const sim::LinePoint& point : points)
      sum += point.x / point.y, squares += (point.x / point.y) * (point.x / point.y);
    return {.slope = sum / squares};
  }

  static Lines alone_lines(const MeasuredTable& table) {
    std::map<std::pair<std::string, std::size_t>, std::vector<sim::LinePoint>> points;
    for (std::size_t row = 0; row < table.rows(); ++row) {
      const PerActivity sizes = sizes_of(table, row);
      if (at_once(sizes) != 1) continue;
      for (std::size_t i = 1; i < hw::kActivities; ++i)
        if (sizes[i] > 0) points[{cluster_of(table, row), i}].push_back({sizes[i], table.positive(row, "latency_ms")});
    }
    Lines lines;
    for (const auto& [where, own] : points) lines[where] = alone_line(own);
    return lines;
  }

  /// Of rows with products alone, by device: how many times as fast they were as the part's model (operands that are
  /// all alike draw less power).
  static std::map<std::string, double> product_speeds(const MeasuredTable& table, const PartShelf& parts) {
    std::map<std::string, std::vector<double>> seen;
    for (std::size_t row = 0; row < table.rows(); ++row) {
      const PerActivity sizes = sizes_of(table, row);
      if (at_once(sizes) != 1 || sizes[0] <= 0) continue;
      for (const Machine& machine : kMachines)
        if (const auto* gpu = parts.find<hw::GpuParams>(machine.part); gpu && table.text(row, "gpu") == machine.gpu) {
          seen[machine.gpu].push_back(product_ms(*gpu, table, row) / table.positive(row, "latency_ms"));
          break;
        }
    }
    std::map<std::string, double> speeds;
    for (const auto& [gpu, all] : seen)
      speeds[gpu] = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
    return speeds;
  }

  static double product_ms(const hw::CatalogEntry<hw::GpuParams>& gpu, const MeasuredTable& table, std::size_t row) {
    const hw::Gemm shape{table.count(row, "compute_n"), table.count(row, "compute_m"), table.count(row, "compute_k")};
    return hw::make_cost_model("tiled", gpu.part)->cost({hw::OpClass::ffn_up, hw::DType::fp16, shape}).time_s * 1e3;
  }

  /// A model of that name; `factors` as published for the machine.
  static std::unique_ptr<hw::Interference> shipped(std::string_view name, const Machine& machine) {
    sim::Node params = sim::Node::object();
    if (name == "factors") params.set("platform", sim::Node::string(machine.platform));
    return shipped_policy<hw::InterferenceRegistry>(hw::register_interference, "interference", std::string(name),
                                                    params)
        .make();
  }
};

}  // namespace interference_table

std::unique_ptr<TableKind> training_interference_tables() {
  return std::make_unique<interference_table::InterferenceTable>();
}

}  // namespace orrery::experiments
