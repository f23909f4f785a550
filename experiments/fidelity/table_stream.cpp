// `stream/<stem>.csv`: passes over memory as `tools/profile_gpu.py` measures them, by `op, tokens, width`, bf16.
//
// Residual adds, layer norms and softmaxes are PyTorch's own kernels, and so are casts to and from fp32, products with
// a row that others share, log-softmaxes and Adam's update in fp32; gated activations and rotations are compiled
// (torch.compile), element by element. No table of this kind is in the reference data, so nothing here is fitted.
#include <fmt/format.h>

#include <optional>

#include "experiments/fidelity/table_kind.hpp"
#include "hw/base/kernel_builders.hpp"
#include "hw/cost/cost_model.hpp"

namespace orrery::experiments {
namespace stream_table {

/// The same work without a thread block a row.
hw::Kernel compiled(hw::Kernel kernel) {
  auto& pass = std::get<hw::Streaming>(kernel.shape);
  pass.pass = hw::Pass::compiled;
  pass.rows = 0;
  return kernel;
}

std::optional<hw::Kernel> kernel_of(const std::string& op, std::int64_t tokens, std::int64_t width) {
  constexpr hw::DType kType = hw::DType::bf16;
  if (op == "residual") return hw::residual_kernel(tokens, width, kType);
  if (op == "norm") return hw::norm_kernel(hw::Norm::layer, tokens, width, kType);
  if (op == "softmax") return hw::softmax_kernel(tokens, width, kType);
  if (op == "activation") return compiled(hw::activation_kernel(hw::Activation::silu, true, tokens, width, kType));
  if (op == "rope") return compiled(hw::residual_kernel(tokens, width, kType));  // two tensors in, one out
  const std::int64_t tensor = tokens * width * 2;
  const auto plain = [&](std::int64_t read, std::int64_t write) {
    return hw::Kernel{hw::OpClass::residual, kType, hw::Streaming{.read_bytes = read, .write_bytes = write}};
  };
  const auto by_element = [&](hw::Pass pass, std::int64_t read, std::int64_t write) {
    hw::Kernel kernel = plain(read, write);
    auto& shape = std::get<hw::Streaming>(kernel.shape);
    shape.pass = pass;
    shape.rows = tokens * width;
    return kernel;
  };
  if (op == "widen") return by_element(hw::Pass::one_by_one, tensor, 2 * tensor);
  if (op == "narrow") return plain(2 * tensor, tensor);
  if (op == "broadcast") return by_element(hw::Pass::one_by_one, tensor, tensor);
  if (op == "log_softmax") return hw::softmax_kernel(tokens, width, hw::DType::fp32);
  if (op == "adam")
    return by_element(hw::Pass::many_tensors, 8 * tensor, 6 * tensor);  // weights, gradients and two moments, fp32
  return std::nullopt;
}

std::string_view regime(const std::string& op) {
  if (op == "residual") return "residual";
  if (op == "norm" || op == "softmax" || op == "log_softmax") return "rows";
  if (op == "widen" || op == "narrow") return "casts";
  if (op == "broadcast" || op == "adam") return op == "adam" ? "adam" : "broadcast";
  return "compiled";
}

class StreamTables final : public TableKind {
 public:
  std::string_view name() const override { return "stream"; }
  bool reads(std::string_view path) const override { return path.starts_with("stream/"); }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const auto found = parts.for_table<hw::GpuParams>(table.stem());
    if (!found) return out.skip_all("time", table, "no part of the catalog stands for it");
    const auto tiled = hw::make_cost_model("tiled", found.entry->part);
    out.each_row("time", table, [&](std::size_t row) {
      const std::string& op = table.text(row, "op");
      const std::optional<hw::Kernel> kernel = kernel_of(op, table.count(row, "tokens"), table.count(row, "width"));
      if (!kernel) return out.skip("time", row, fmt::format("operation '{}' is not known", op));
      out.add("time", row, table.number(row, "time_us"), tiled->cost(*kernel).time_s * 1e6, {regime(op)});
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "op") + " " + table.text(row, "tokens") + "x" + table.text(row, "width");
  }
};

}  // namespace stream_table

std::unique_ptr<TableKind> stream_tables() {
  return std::make_unique<stream_table::StreamTables>();
}

}  // namespace orrery::experiments
