// `layers/llmcompass.csv`: single PyTorch operations and the operations of a GPT-3 layer on four devices (LLMCompass).
//
// A time runs from the call on an idle device to its completion, so it holds what the host does:
//   t = max(return, launch + kernel)
// launch is the host's time until the kernel is on the device, return the host's time until the call is back (what
// comes after the launch hides behind a long kernel). Softmax and products are eager calls. Layer norm and GELU went
// through torch.compile, whose guards are checked at every call: 38 us before the launch, whatever the size. Both are
// properties of the host and the framework, not of the device; they are fitted to the A100's rows and taken for other
// devices too.
//
// The layer: GPT-3 (d = 12288, 96 heads) on 4 devices, 8 sequences; prefill of 2048 tokens, decode at 3072. Q, K and V
// are three products: the time of "Q_K_V" is three times that of Wo, whose weights have the size of each.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "experiments/fidelity/table_kind.hpp"
#include "hw/base/kernel_builders.hpp"
#include "hw/cost/cost_model.hpp"
#include "hw/network/library_collective.hpp"

namespace orrery::experiments {
namespace layers_table {

/// What a call costs its host, s.
struct Call {
  double launch_s, return_s;
};
constexpr Call kEager{10.5e-6, 10.5e-6};
constexpr Call kEagerProduct{25e-6, 25e-6};  // the cheapest product of gemm/llmcompass_a100 takes 29.6 us
constexpr Call kCompiledNorm{38e-6, 52.8e-6};
constexpr Call kCompiledActivation{38e-6, 47.7e-6};

constexpr hw::DType kType = hw::DType::fp16;
constexpr std::int64_t kWidth = 12288, kHeads = 96, kHeadDim = 128, kSequences = 8;
constexpr std::int64_t kPrompt = 2048, kContext = 3072;

struct Operation {
  hw::Kernel kernel;
  Call call = kEager;
  std::int64_t calls = 1;
};

hw::Kernel compiled(hw::Kernel kernel) {
  std::get<hw::Streaming>(kernel.shape).pass = hw::Pass::compiled;
  return kernel;
}

Operation norm(std::int64_t rows, std::int64_t width) {
  return {compiled(hw::norm_kernel(hw::Norm::layer, rows, width, kType)), kCompiledNorm};
}

Operation gelu(std::int64_t elements) {
  hw::Kernel kernel = compiled(hw::activation_kernel(hw::Activation::gelu, false, elements, 1, kType));
  std::get<hw::Streaming>(kernel.shape).rows = 0;  // element by element
  return {kernel, kCompiledActivation};
}

Operation product(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch = 1) {
  return {{hw::OpClass::ffn_up, kType, hw::Gemm{m, n, k, batch}}, kEagerProduct};
}

/// A size of a row, rounded ("1.04858e+06" is one too).
std::int64_t size_in(const MeasuredTable& table, std::size_t row, std::string_view column) {
  const double value = table.number(row, column);
  if (!(value >= 1 && value < 9e15))
    sim::throw_fault({table.name(), ""}, fmt::format("expected a size in column '{}', got '{}'", column, value));
  return static_cast<std::int64_t>(value + 0.5);
}

std::optional<Operation> single(const MeasuredTable& table, std::size_t row) {
  const std::string& op = table.text(row, "op");
  const std::int64_t m = size_in(table, row, "M");
  if (op == "gelu") return gelu(m);
  const std::int64_t n = size_in(table, row, "N");
  if (op == "softmax") return Operation{hw::softmax_kernel(m, n, kType)};
  if (op == "layernorm") return norm(m, n);
  if (op == "matmul") return product(m, n, size_in(table, row, "K"));
  return std::nullopt;
}

std::optional<Operation> of_layer(const std::string& op, std::int64_t devices, bool prefill) {
  const std::int64_t tokens = kSequences * (prefill ? kPrompt : 1), queries = prefill ? kPrompt : 1;
  const std::int64_t keys = prefill ? kPrompt : kContext, heads = kSequences * kHeads / devices;
  const std::int64_t slice = kWidth / devices;
  if (op == "Q_K_V") {
    Operation out = product(tokens, slice, kWidth);
    out.calls = 3;
    return out;
  }
  if (op == "Q_mul_K") return product(queries, keys, kHeadDim, heads);
  if (op == "A_mul_V") return product(queries, kHeadDim, keys, heads);
  if (op == "Wo_proj") return product(tokens, kWidth, slice);
  if (op == "W1_proj") return product(tokens, 4 * slice, kWidth);
  if (op == "W2_proj") return product(tokens, kWidth, 4 * slice);
  if (op == "Softmax") return Operation{hw::softmax_kernel(heads * queries, keys, kType)};
  if (op.starts_with("LayerNorm")) return norm(tokens, kWidth);
  if (op == "GeLU") return gelu(tokens * 4 * slice);
  return std::nullopt;
}

class LayerTables final : public TableKind {
 public:
  std::string_view name() const override { return "layers"; }
  bool reads(std::string_view path) const override { return path.starts_with("layers/"); }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    out.each_row("time", table, [&](std::size_t row) {
      const auto [devices, stem] = device_of(table, row);
      const auto found = parts.for_table<hw::GpuParams>(stem);
      if (!found) return out.skip("time", row, fmt::format("no part of the catalog stands for '{}'", stem));
      const double measured = table.number(row, "latency_us");
      const hw::GpuParams& gpu = found.entry->part;
      const std::string& op = table.text(row, "op");
      const bool prefill = table.text(row, "note").starts_with("prefill");
      if (devices > 1 && op.starts_with("AllReduce")) {
        const std::int64_t bytes = kSequences * (prefill ? kPrompt : 1) * kWidth * hw::bytes_of(kType);
        const auto reduced = hw::library_collective(gpu.link, hw::LibraryCall::all_reduce, devices, bytes);
        return out.add("time", row, measured, reduced.time_s * 1e6, {"GPT-3 layer"});
      }
      const std::optional<Operation> known = devices > 1 ? of_layer(op, devices, prefill) : single(table, row);
      if (!known) return out.skip("time", row, fmt::format("operation '{}' is not known", op));
      const double kernel_s = hw::make_cost_model("tiled", gpu)->cost(known->kernel).time_s;
      const double call_s = std::max(known->call.return_s, known->call.launch_s + kernel_s);
      out.add("time", row, measured, static_cast<double>(known->calls) * call_s * 1e6, {regime(devices, op)});
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    std::string key;
    for (const char* column : {"op", "M", "N", "K", "note"}) key += table.text(row, column) + "x";
    return key;
  }

 private:
  /// "4xA100" is four devices of the stem "llmcompass_a100".
  static std::pair<std::int64_t, std::string> device_of(const MeasuredTable& table, std::size_t row) {
    std::string name = table.text(row, "device");
    std::int64_t count = 1;
    std::int64_t number = 0;
    const char* const end = name.data() + name.size();
    const auto [at, error] = std::from_chars(name.data(), end, number);
    if (error == std::errc() && number > 0 && at != end && *at == 'x') {
      count = number;
      name = name.substr(static_cast<std::size_t>(at - name.data()) + 1);
    }
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    return {count, "llmcompass_" + name};
  }

  static std::string_view regime(std::int64_t devices, const std::string& op) {
    if (devices > 1) return "GPT-3 layer";
    if (op == "softmax") return "softmax";
    return op == "layernorm" ? "layer norm" : op == "gelu" ? "GELU" : "product";
  }
};

}  // namespace layers_table

std::unique_ptr<TableKind> layer_tables() {
  return std::make_unique<layers_table::LayerTables>();
}

}  // namespace orrery::experiments
