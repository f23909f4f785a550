// The cost of a kernel on an NPU.
//
// Products: hw/npu/npu_gemm.hpp. Everything else is a pipeline of engines that work on blocks; with n blocks a core and
// engine times e_i over the whole kernel,
//   t = launch + latency + start of a transfer + step + max(e_i) + (sum(e_i) - max(e_i)) / n
// so that many blocks overlap fully and one block not at all.
// Attention: matrix engine (rows of a query block stream past keys that stand in the array, head_dim padded to its
// edge), vector engine (softmax_ops fp32 operations a score), memory, and, where matrix and vector cores are split,
// scores and probabilities that cross the L2. Blocks are (query tile, head) or 128 keys of a sequence's key head.
// Passes, transforms and sparse products: vector engine, path into the unified buffer, memory; blocks are a quarter of
// the unified buffer. Grouped products: a batch of groups of the mean size. Convolutions and fused groups: matrix
// engine (the product that a convolution is, whole unit blocks shared evenly by the cores), vector engine and memory,
// in blocks of a quarter of the L1.
#include <algorithm>
#include <cmath>

#include "hw/base/arithmetic.hpp"
#include "hw/base/real.hpp"
#include "hw/npu/npu_gemm.hpp"
#include "hw/tiled/shapes.hpp"

namespace orrery::hw {
namespace {

constexpr double kKeysPerBlock = 128;
constexpr double kScoreBytes = 4;

/// Times of a kernel without its launch.
struct NpuTime {
  double time_s = 0, compute_s = 0, memory_s = 0, fixed_s = 0, dram_bytes = 0;
};

class NpuCost final : public CostModel {
 public:
  explicit NpuCost(const NpuParams& npu) : npu_(npu) {}

  Cost cost(const Kernel& kernel) const override {
    const Work work = work_of(kernel);
    if (is_empty(work)) return {};
    const NpuTime t = time_of(kernel, work);
    const bool vector = !uses_matrix_units(kernel);
    return booked(npu_.power, work,
                  {.time_s = npu_.launch_s + t.time_s,
                   .compute_s = t.compute_s,
                   .memory_s = t.memory_s,
                   .fixed_s = npu_.launch_s + t.fixed_s,
                   .dram_bytes = t.dram_bytes,
                   .flop_j = vector ? npu_.power.fp32_flop_j : matrix_flop_energy(npu_, kernel.dtype)});
  }

 private:
  double cores() const { return d(npu_.cores); }

  NpuTime time_of(const Kernel& kernel, const Work& work) const {
    return std::visit([&](const auto& shape) { return of(shape, kernel, work); }, kernel.shape);
  }

  NpuTime of(const Gemm& s, const Kernel& kernel, const Work&) const { return of_gemm(s, kernel.dtype); }
  NpuTime of(const GroupedGemm& s, const Kernel& kernel, const Work&) const {
    return of_gemm({ceil_div(s.rows, std::max<std::int64_t>(1, s.groups)), s.n, s.k, s.groups, s.weights},
                   kernel.dtype);
  }
  NpuTime of(const AttentionPrefill& a, const Kernel& kernel, const Work& work) const {
    const double group = d(a.heads) / std::max(1.0, d(a.kv_heads));
    const double rows = std::min(128.0, d(a.q_tokens) / std::max(1.0, d(a.sequences)) * group);
    const double tiles = std::max({1.0, d(a.q_tiles), d(a.sequences)}) * d(a.heads);
    return of_attention(work, d(a.pairs) * d(a.heads), d(a.head_dim), d(a.values()), rows, tiles, kernel.dtype);
  }
  NpuTime of(const AttentionDecode& a, const Kernel& kernel, const Work& work) const {
    const double group = d(a.heads) / std::max(1.0, d(a.kv_heads));
    const double context = d(a.context_tokens) / d(a.sequences);  // a block never spans two sequences
    const double blocks = d(a.sequences) * std::ceil(context / kKeysPerBlock) * d(a.kv_heads);
    return of_attention(work, d(a.context_tokens) * d(a.heads), d(a.head_dim), d(a.values()), group, blocks,
                        kernel.dtype);
  }
  NpuTime of(const Streaming&, const Kernel& kernel, const Work& work) const {
    return of_pass(work, bytes_of(kernel.dtype));
  }
  NpuTime of(const Sparse&, const Kernel& kernel, const Work& work) const {
    return of_pass(work, bytes_of(kernel.dtype));
  }
  NpuTime of(const Fft&, const Kernel& kernel, const Work& work) const { return of_pass(work, bytes_of(kernel.dtype)); }
  NpuTime of(const Conv& s, const Kernel& kernel, const Work& work) const {
    return of_block(work, implicit_gemm(s), 0, 0, kernel.dtype);
  }
  NpuTime of(const Fused& s, const Kernel& kernel, const Work& work) const {
    return of_block(work, s.gemm, d(s.other_matrix_flops), d(s.vector_flops), kernel.dtype);
  }

  /// The format in which the matrix unit takes operands of `dtype` in attention, convolutions and fused groups: where
  /// it lacks fp32, they are narrowed to 16 bits. (Plain fp32 products run on the vector unit instead.)
  DType matrix_format(DType dtype) const { return matrix_rate(npu_.matrix, dtype) > 0 ? dtype : DType::fp16; }

  /// A product whose operands are not what it reads, further matrix FLOPs at peak, vector FLOPs, and the kernel's
  /// bytes.
  NpuTime of_block(const Work& work, const Gemm& g, double matrix_flops, double vector_flops, DType dtype) const {
    const DType format = matrix_format(dtype);
    double matrix_s = matrix_flops / (matrix_peak(npu_, format) * npu_.matrix.efficiency);
    if (g.m > 0 && g.n > 0 && g.k > 0)
      matrix_s += matrix_cycles(npu_.matrix, g.m, g.n, g.k, format) * d(g.batch) /
                  (cores() * npu_.clock_hz * npu_.matrix.efficiency);
    const double bytes = work.read_bytes + work.write_bytes;
    const double blocks = std::max(1.0, bytes / (d(npu_.scratch.l1) / 4));
    const double active = std::min(std::ceil(blocks), cores());
    const double vector_s = vector_flops * d(bytes_of(dtype)) /
                            (d(npu_.vector.bytes_per_cycle) * npu_.vector.efficiency * cores() * npu_.clock_hz);
    NpuTime t = pipeline(matrix_s, vector_s, 0, bytes / dram_rate(npu_, active), blocks);
    t.dram_bytes = bytes;
    return t;
  }

  NpuTime of_gemm(const Gemm& gemm, DType dtype) const {
    const NpuGemmPlan p = plan_npu_gemm(npu_, gemm, dtype);
    const double steps = d(p.waves) * d(p.steps_per_tile);
    return {p.time_s, p.compute_s * steps, p.load_s * steps + p.store_s * d(p.waves), p.fill_s + npu_.step_s,
            p.dram_bytes};
  }

  /// Engines e over blocks: see the head of this file.
  NpuTime pipeline(double matrix_s, double vector_s, double path_s, double memory_s, double blocks) const {
    const double sum = matrix_s + vector_s + path_s + memory_s;
    const double top = std::max(std::max(matrix_s, vector_s), std::max(path_s, memory_s));
    const double depth = std::max(1.0, blocks / cores());
    NpuTime t;
    t.fixed_s = npu_.memory_latency_s + npu_.dma.fixed_s + npu_.step_s;
    t.time_s = t.fixed_s + top + (sum - top) / depth;
    t.compute_s = std::max(matrix_s, vector_s);
    t.memory_s = std::max(path_s, memory_s);
    return t;
  }

  /// `blocks` units of work on so many cores: whole waves of them, as a factor on even shares.
  double quantised(double blocks) const { return std::ceil(blocks / cores()) * cores() / blocks; }

  NpuTime of_attention(const Work& work, double scores, double head_dim, double value_dim, double rows, double blocks,
                       DType dtype) const {
    const MatrixUnit& unit = npu_.matrix;
    const double edge = d(unit.columns);
    const double padded_dims = (std::ceil(head_dim / edge) + std::ceil(value_dim / edge)) * edge;
    const double padded_rows =
        unit.kind == MatrixKind::cube ? std::ceil(rows / d(unit.rows)) * d(unit.rows) : std::max(rows, d(unit.rows));
    const double rate = matrix_rate(unit, matrix_format(dtype));
    const double macs = scores * padded_dims * (padded_rows / rows);
    const double share = quantised(blocks);
    const double per_cycle = cells(unit) * d(unit.per_core) * rate * unit.efficiency * cores() * npu_.clock_hz;
    const double vector_rate = d(npu_.vector.bytes_per_cycle) * npu_.vector.efficiency * cores() * npu_.clock_hz;
    double path_s = 0;
    if (npu_.vector.through_l2) {
      const double crossing = 2.0 * (kScoreBytes + d(bytes_of(dtype))) * scores;
      path_s = crossing / l2_rate();
    }
    const double active = std::min(blocks, cores());
    const double memory_s = (work.read_bytes + work.write_bytes) / dram_rate(npu_, active);
    NpuTime t = pipeline(macs / per_cycle * share, scores * npu_.vector.softmax_ops * kScoreBytes / vector_rate * share,
                         path_s, memory_s, blocks);
    t.dram_bytes = work.read_bytes + work.write_bytes;
    return t;
  }

  /// Bytes/s that all cores together move through the L2.
  double l2_rate() const {
    double rate = npu_.l2_bandwidth > 0 ? npu_.l2_bandwidth : npu_.memory_bandwidth;
    if (npu_.dma.l2_read > 0) rate = std::min(rate, npu_.dma.l2_read * npu_.clock_hz * cores());
    return rate;
  }

  NpuTime of_pass(const Work& work, std::int64_t element) const {
    const double bytes = work.read_bytes + work.write_bytes;
    const std::int64_t buffer = npu_.scratch.unified > 0 ? npu_.scratch.unified : npu_.scratch.l1;
    const double blocks = std::max(1.0, bytes / (d(buffer) / 4));
    const double active = std::min(std::ceil(blocks), cores());
    const double clock = npu_.clock_hz;
    const double vector_s =
        work.flops * d(element) / (d(npu_.vector.bytes_per_cycle) * npu_.vector.efficiency * active * clock);
    const double path_s = npu_.dma.unified > 0 ? bytes / (npu_.dma.unified * active * clock) : 0.0;
    NpuTime t = pipeline(0, vector_s, path_s, bytes / dram_rate(npu_, active), blocks);
    t.dram_bytes = bytes;
    return t;
  }

  NpuParams npu_;
};

}  // namespace

std::unique_ptr<CostModel> npu_cost_model(const NpuParams& npu) {
  return std::make_unique<NpuCost>(npu);
}

std::unique_ptr<CostModel> npu_cost_model(const NpuParams& npu, std::int64_t cores) {
  NpuParams some = npu;
  some.cores = std::clamp<std::int64_t>(cores, 1, npu.cores);
  return npu_cost_model(some);
}

}  // namespace orrery::hw
