// Matrix products C[m,n] = A[m,k] B[k,n]: `gemm/<stem>.csv` by `dtype,m,n,k,time_us`, and the best of CUTLASS's
// kernels, `edge/cutlass_<stem>.csv` by `M,N,K,precision,min_runtime` (ms).
//
// What a table measured besides the device stands in the catalog as the word beside its stem:
//   kernel             ops of PyTorch layers, one after the other in a stream (Vidur; libraries of 2023): operands
//   cold.
//                      Its profiler times 20 turns of a decoder block (vidur/profiling/mlp), where norms, rotations,
//                      activations, additions and waits for the host come between the products; the power limit sees
//                      the mean. That rest is fitted once for all devices
//   vllm_hot_cache     a graph that calls six layers of one shape in turn, again and again (aiconfigurator's collector:
//                      six weights, one input), so that what fits the L2 stays there
//   vllm_hot_cache_idle_weights  the same where the weights, which the collector leaves as allocated, were mostly
//   zeros:
//                      the A100 of that table never clocks down
//   op                 one PyTorch op with its dispatch, called a few times on the same operands after seconds of rest
//                      (LLMCompass), too briefly for the power limit, which averages over tens of ms
//   pytorch, cudnn     a graph that calls one product on the same operands again and again (tools/profile_gpu.py; the
//                      word says whose attention the same tables have)
//   best_kernel        the fastest of a library's kernels, launched one after the other on operands that together
//   exceed
//                      the cache (CUTLASS's profiler)
#include <fmt/format.h>

#include <optional>

#include "experiments/fidelity/table_kind.hpp"
#include "hw/tiled/tiled.hpp"

namespace orrery::experiments {
namespace {

/// Time of an empty PyTorch matrix product, dispatch and synchronisation included: LLMCompass, hardware_model/*.py
/// @2e015fd, through framework_op_overhead_us in catalog_facts.json of the reference data.
constexpr double kOpOverheadS = 21e-6;

/// Time of little power between two products of Vidur's blocks: fitted to gemm/a100 (47 us; 40 to 60 us on h100).
constexpr double kBlockRestS = 47e-6;

/// What a word of the catalog says about a measurement.
struct Measuring {
  hw::GemmConditions conditions;
  double launch_s = 0;
};

std::optional<Measuring> measuring(std::string_view measured_as, const hw::GpuParams& gpu) {
  constexpr std::int64_t kCollectorCopies = 6;
  if (measured_as == "kernel") return Measuring{{0, 1, false, kBlockRestS}, gpu.launch_stream_s};
  if (measured_as == "vllm_hot_cache") return Measuring{{kCollectorCopies, 1, true}, gpu.launch_graph_s};
  if (measured_as == "vllm_hot_cache_idle_weights") return Measuring{{kCollectorCopies, 0.4, true}, gpu.launch_graph_s};
  if (measured_as == "op") return Measuring{{1, 0, true}, kOpOverheadS};
  if (measured_as == "pytorch" || measured_as == "cudnn") return Measuring{{1, 1, true}, gpu.launch_graph_s};
  if (measured_as == "best_kernel") return Measuring{{0, 1, true}, gpu.launch_stream_s};
  return {};
}

/// Names of columns, and what turns a cell of time into us.
struct Columns {
  const char *m, *n, *k, *dtype, *time;
  double us;
};
constexpr Columns kPlain{"m", "n", "k", "dtype", "time_us", 1};
constexpr Columns kCutlass{"M", "N", "K", "precision", "min_runtime", 1e3};

const Columns& columns_of(const MeasuredTable& table) {
  return table.has("m") ? kPlain : kCutlass;
}

class GemmTables final : public TableKind {
 public:
  std::string_view name() const override { return "gemm"; }
  bool reads(std::string_view path) const override {
    return path.starts_with("gemm/") || path.starts_with("edge/cutlass_");
  }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const auto found = parts.for_table<hw::GpuParams>(table.stem());
    if (!found) return out.skip_all("time", table, "no part of the catalog stands for it");
    const hw::GpuParams& gpu = found.entry->part;
    const std::optional<Measuring> how = measuring(found.measured_as, gpu);
    if (!how)
      return out.skip_all("time", table, fmt::format("nothing is known of measurements as '{}'", found.measured_as));
    const Columns& names = columns_of(table);
    out.each_row("time", table, [&](std::size_t row) {
      const std::string& format = table.text(row, names.dtype);
      const std::optional<hw::DType> dtype = dtype_named(format);
      if (!dtype) return out.skip("time", row, fmt::format("number format '{}' is not modelled", format));
      const hw::Gemm shape{table.count(row, names.m), table.count(row, names.n), table.count(row, names.k)};
      const double us = (how->launch_s + hw::plan_gemm(gpu, shape, *dtype, how->conditions).time.time_s) * 1e6;
      const std::string_view regime = shape.m <= 64 ? "m <= 64" : shape.m <= 512 ? "64 < m <= 512" : "m > 512";
      out.add("time", row, table.number(row, names.time) * names.us, us, {regime}, {},
              learnable(*found.entry, found.measured_as, {hw::OpClass::ffn_up, *dtype, shape}));
    });
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    const Columns& names = columns_of(table);
    return table.text(row, names.m) + "x" + table.text(row, names.n) + "x" + table.text(row, names.k);
  }
  std::string group_key(const MeasuredTable& table, std::size_t row) const override {
    const Columns& names = columns_of(table);
    return table.text(row, names.n) + "x" + table.text(row, names.k);
  }
};

}  // namespace

std::unique_ptr<TableKind> gemm_tables() {
  return std::make_unique<GemmTables>();
}

}  // namespace orrery::experiments
