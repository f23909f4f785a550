// `edge/layernorm_<device>.csv`: layer norm of M rows of N elements, best kernel, milliseconds.
//
// The kernel is CUTLASS's, which keeps a row in registers and loads two 16-bit elements at a time: on an Orin it is
// bound by its instructions, not by the memory. Every time includes a launch into a stream.
#include "experiments/fidelity/table_kind.hpp"
#include "hw/base/kernel_builders.hpp"
#include "hw/tiled/stream.hpp"

namespace orrery::experiments {
namespace {

class EdgeLayernormTables final : public TableKind {
 public:
  std::string_view name() const override { return "edge_layernorm"; }
  bool reads(std::string_view path) const override { return path.starts_with("edge/layernorm_"); }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const auto found = parts.for_table<hw::GpuParams>(table.stem());
    if (!found) return out.skip_all("time", table, "no part of the catalog stands for it");
    const hw::GpuParams& gpu = found.entry->part;
    out.each_row("time", table, [&](std::size_t row) {
      hw::Kernel kernel =
          hw::norm_kernel(hw::Norm::layer, table.count(row, "M"), table.count(row, "N"), hw::DType::fp16);
      auto& pass = std::get<hw::Streaming>(kernel.shape);
      pass.pass = hw::Pass::stored_norm;
      const double s = gpu.launch_stream_s + hw::tiled_streaming(gpu, pass, kernel.op, kernel.dtype).time_s;
      const std::string_view rows = table.number(row, "M") <= 128 ? "M <= 128" : "M > 128";
      out.add("time", row, table.number(row, "min_runtime"), s * 1e3, {rows});
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "M") + "x" + table.text(row, "N");
  }
};

}  // namespace

std::unique_ptr<TableKind> edge_layernorm_tables() {
  return std::make_unique<EdgeLayernormTables>();
}

}  // namespace orrery::experiments
