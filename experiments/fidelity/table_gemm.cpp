// `gemm/<stem>.csv`: matrix products C[m,n] = A[m,k] B[k,n] by `dtype,m,n,k,time_us`.
#include <fmt/format.h>

#include <optional>

#include "experiments/fidelity/table_kind.hpp"
#include "hw/cost_model.hpp"

namespace orrery::experiments {
namespace {

class GemmTables final : public TableKind {
 public:
  std::string_view name() const override { return "gemm"; }
  bool reads(std::string_view path) const override { return path.starts_with("gemm/"); }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const auto found = parts.for_table<hw::GpuParams>(table.stem());
    if (!found) return out.skip_all("time", table, "no part of the catalog stands for it");
    const auto model = hw::make_cost_model("tiled", found.entry->part);
    const auto &m = table.numbers("m"), &n = table.numbers("n"), &k = table.numbers("k");
    const auto& measured = table.numbers("time_us");
    for (std::size_t row = 0; row < table.rows(); ++row) {
      const std::optional<hw::DType> dtype = hw::dtype_of(table.text(row, "dtype"));
      if (!dtype) {
        out.skip("time", row, fmt::format("number format '{}' is not modelled", table.text(row, "dtype")));
        continue;
      }
      const hw::Gemm shape{static_cast<std::int64_t>(m[row]), static_cast<std::int64_t>(n[row]),
                           static_cast<std::int64_t>(k[row])};
      const double us = model->cost({hw::OpClass::ffn_up, *dtype, shape}).time_s * 1e6;
      const std::string_view regime = m[row] <= 64 ? "m <= 64" : m[row] <= 512 ? "64 < m <= 512" : "m > 512";
      out.add("time", row, measured[row], us, {regime});
    }
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "m") + "x" + table.text(row, "n") + "x" + table.text(row, "k");
  }
};

}  // namespace

std::unique_ptr<TableKind> gemm_tables() {
  return std::make_unique<GemmTables>();
}

}  // namespace orrery::experiments
