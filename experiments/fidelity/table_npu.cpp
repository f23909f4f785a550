// `npu/tpu_*.csv`: matrix products C[m,n] = A[m,k] B[k,n] on a TPU by `m,n,k`: SCALE-Sim's cycles of one 128 x 128
// weight-stationary array (`scalesim_cycles`, the smaller of m and n streams) and the time of the fusion kernel on the
// device (`measured_us`, without the launch).
//
// Which device and how many of its cores ran the kernels is the catalog's affair: `tables` of a part names the stem, or
// "tpu" for all of them, and "one_core_bf16" means one core and bf16 operands.
#include <algorithm>

#include "experiments/fidelity/table_kind.hpp"
#include "hw/npu/npu.hpp"

namespace orrery::experiments {
namespace {

constexpr hw::SystolicShape kScaleSimArray{128, 128};

class NpuTables final : public TableKind {
 public:
  std::string_view name() const override { return "npu"; }
  bool reads(std::string_view path) const override { return path.starts_with("npu/"); }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const auto shape = [&](std::size_t row) {
      return hw::Gemm{table.count(row, "m"), table.count(row, "n"), table.count(row, "k")};
    };
    if (table.has("scalesim_cycles")) {
      out.each_row("cycles", table, [&](std::size_t row) {
        hw::Gemm g = shape(row);
        if (g.m > g.n) std::swap(g.m, g.n);
        out.add("cycles", row, table.number(row, "scalesim_cycles"),
                static_cast<double>(hw::systolic_cycles(g, kScaleSimArray, hw::Dataflow::ws)));
      });
    }
    if (!table.has("measured_us")) return;
    auto found = parts.for_table<hw::NpuParams>(table.stem());
    if (!found && table.stem().starts_with("tpu_")) found = parts.for_table<hw::NpuParams>("tpu");
    if (!found) return out.skip_all("time", table, "no part of the catalog stands for it");
    const hw::NpuParams& npu = found.entry->part;
    const auto model = hw::npu_cost_model(npu, found.measured_as == "one_core_bf16" ? 1 : npu.cores);
    out.each_row("time", table, [&](std::size_t row) {
      const hw::Gemm g = shape(row);
      const double us = model->cost({hw::OpClass::ffn_up, hw::DType::bf16, g}).time_s * 1e6 - npu.launch_s * 1e6;
      const std::int64_t longest = std::max(g.m, std::max(g.n, g.k));
      const std::string_view regime = longest < 128     ? "all < 128"
                                      : longest <= 512  ? "largest 128 to 512"
                                      : longest <= 1024 ? "largest 513 to 1024"
                                                        : "largest > 1024";
      out.add("time", row, table.number(row, "measured_us"), us, {regime});
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "m") + "x" + table.text(row, "n") + "x" + table.text(row, "k");
  }
};

}  // namespace

std::unique_ptr<TableKind> npu_tables() {
  return std::make_unique<NpuTables>();
}

}  // namespace orrery::experiments
