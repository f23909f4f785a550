// `grouped/<stem>.csv`: products of experts as `tools/profile_gpu.py` measures them, by `dtype, experts, rows, n, k`;
// each expert has so many rows.
//
// PyTorch's kernel (CUTLASS), calls in a graph on the same operands. Nothing is fitted to it: constants of grouped
// products are those of vLLM's kernel.
#include <fmt/format.h>

#include <optional>
#include <vector>

#include "experiments/fidelity/table_kind.hpp"
#include "hw/base/kernel_builders.hpp"
#include "hw/tiled/grouped.hpp"

namespace orrery::experiments {
namespace grouped_table {

class GroupedTables final : public TableKind {
 public:
  std::string_view name() const override { return "grouped"; }
  bool reads(std::string_view path) const override { return path.starts_with("grouped/"); }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const auto found = parts.for_table<hw::GpuParams>(table.stem());
    if (!found) return out.skip_all("time", table, "no part of the catalog stands for it");
    const hw::GpuParams& gpu = found.entry->part;
    out.each_row("time", table, [&](std::size_t row) {
      const std::string& format = table.text(row, "dtype");
      const std::optional<hw::DType> dtype = dtype_named(format);
      if (!dtype) return out.skip("time", row, fmt::format("number format '{}' is not modelled", format));
      const std::int64_t experts = table.count(row, "experts"), each = table.count(row, "rows");
      if (experts > kMostExperts) return out.skip("time", row, "more experts than any layer has");
      const std::vector<std::int64_t> rows(static_cast<std::size_t>(experts), each);
      const hw::GroupedGemm shape = hw::grouped_gemm(rows, table.count(row, "n"), table.count(row, "k"));
      const double s = gpu.launch_graph_s + hw::plan_grouped(gpu, shape, *dtype, hw::Weights::hot).time.time_s;
      out.add("time", row, table.number(row, "time_us"), s * 1e6, {each <= 64 ? "rows <= 64" : "rows > 64"});
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "experts") + "x" + table.text(row, "rows") + "x" + table.text(row, "n") + "x" +
           table.text(row, "k");
  }
};

}  // namespace grouped_table

std::unique_ptr<TableKind> grouped_tables() {
  return std::make_unique<grouped_table::GroupedTables>();
}

}  // namespace orrery::experiments
