// `pim/upmem_prim.csv`: the PrIM benchmarks on UPMEM DIMMs, `benchmark, num_dpus, data_prep_param` and times in ms.
//
// `data_prep_param` is the total size as the host code takes it: rows of 4 DPUs and of 1 with the same size a DPU have
// the same kernel time only so. Programs run with 16 tasklets. A time of 0 stands for a part that was not measured.
#include <fmt/format.h>

#include <array>

#include "experiments/fidelity/table_kind.hpp"
#include "hw/pim/prim.hpp"

namespace orrery::experiments {
namespace {

struct Metric {
  std::string_view name, column;
  double hw::PrimTimes::*time;
};
constexpr std::array<Metric, 4> kMetrics{{{"kernel", "hw_kernel", &hw::PrimTimes::kernel_s},
                                          {"cpu_to_dpu", "hw_cpu_to_dpu", &hw::PrimTimes::cpu_to_dpu_s},
                                          {"dpu_to_cpu", "hw_dpu_to_cpu", &hw::PrimTimes::dpu_to_cpu_s},
                                          {"dpu_to_dpu", "hw_dpu_to_dpu", &hw::PrimTimes::dpu_to_dpu_s}}};

class PimTables final : public TableKind {
 public:
  std::string_view name() const override { return "pim"; }
  bool reads(std::string_view path) const override { return path.starts_with("pim/"); }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    auto found = parts.for_table<hw::UpmemParams>(table.stem());
    if (!found && table.stem().starts_with("upmem")) found = parts.for_table<hw::UpmemParams>("upmem_prim");
    for (const Metric& metric : kMetrics) {
      if (!table.has(metric.column)) continue;
      if (!found) {
        out.skip_all(metric.name, table, "no part of the catalog stands for it");
        continue;
      }
      out.each_row(metric.name, table,
                   [&](std::size_t row) { predict_row(table, found.entry->part, metric, row, out); });
    }
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "benchmark") + " " + table.text(row, "num_dpus") + " " + table.text(row, "data_prep_param");
  }

 private:
  static void predict_row(const MeasuredTable& table, const hw::UpmemParams& upmem, const Metric& metric,
                          std::size_t row, Predictions& out) {
    // The benchmark has no such part, or nobody measured it: no row of this metric.
    if (table.text(row, metric.column).empty() || table.number(row, metric.column) == 0) return;
    const double measured_ms = table.number(row, metric.column);
    const std::optional<hw::Prim> prim = sim::value_named<hw::Prim>(table.text(row, "benchmark"));
    if (!prim) {
      out.skip(metric.name, row, fmt::format("benchmark '{}' is not modelled", table.text(row, "benchmark")));
      return;
    }
    const std::int64_t dpus = table.count(row, "num_dpus");
    const hw::PrimTimes times = hw::prim_times(upmem, *prim, dpus, table.count(row, "data_prep_param"));
    const double predicted_ms = times.*metric.time * 1e3;
    if (predicted_ms == 0) {
      out.skip(metric.name, row, fmt::format("'{}' has no such part in the model", hw::to_string(*prim)));
      return;
    }
    out.add(metric.name, row, measured_ms, predicted_ms,
            {hw::to_string(*prim), dpus == 1 ? "one DPU" : "several DPUs"});
  }
};

}  // namespace

std::unique_ptr<TableKind> pim_tables() {
  return std::make_unique<PimTables>();
}

}  // namespace orrery::experiments
