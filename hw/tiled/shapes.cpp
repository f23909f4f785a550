#include "hw/tiled/shapes.hpp"

#include <algorithm>
#include <cmath>

#include "hw/base/arithmetic.hpp"
#include "hw/base/kernel_work.hpp"
#include "hw/base/real.hpp"
#include "hw/tiled/stream.hpp"

namespace orrery::hw {
namespace {

constexpr double kSectorBytes = 32;
constexpr double kGathersInFlight = 8;  // loads that a warp has under way
constexpr double kSlotsPerFma = 4;      // load, index, multiply-add, loop: instructions of a thread
constexpr double kSlotsPerSm = 128;     // instructions of threads that an SM issues a clock
constexpr double kFftPeakShare = 0.5;   // butterflies are half additions that no multiply-add absorbs
constexpr double kFftPointBytes = 8;    // a complex number on chip, fp32 whatever the format in memory

double memory_rate(const GpuParams& gpu) {
  return gpu.memory_bandwidth * gpu.stream.share;
}

bool is_smooth(std::int64_t n) {
  for (const std::int64_t prime : {2, 3, 5, 7, 11, 13})
    while (n % prime == 0) n /= prime;
  return n == 1;
}

/// Passes of one axis of n points, `points` of which fit on chip.
std::int64_t axis_passes(double n, double points) {
  std::int64_t passes = 1;
  for (double reach = points; reach < n; reach *= points) ++passes;
  return passes;
}

}  // namespace

TiledTime tiled_sparse(const GpuParams& gpu, const Sparse& s, DType dtype) {
  const double element = d(bytes_of(dtype));
  const Work work = shape_work(s, element);
  if (work.flops == 0 && work.read_bytes + work.write_bytes == 0) return {};
  const double operands = s.kind == SparseKind::sddmm ? 2 : 1;
  const double row_bytes = std::ceil(d(s.width) * element / kSectorBytes) * kSectorBytes;
  const double gathered = operands * d(s.nonzeros) * row_bytes;
  const double dense =
      (std::min(d(s.columns), d(s.nonzeros)) + (s.kind == SparseKind::sddmm ? std::min(d(s.rows), d(s.nonzeros)) : 0)) *
      d(s.width) * element;
  TiledTime t;
  t.fixed_s = gpu.stream.fixed_s;
  t.dram_bytes = work.read_bytes + work.write_bytes + std::max(0.0, gathered - dense) * (1 - hot_share(gpu, dense));
  t.memory_s = t.dram_bytes / memory_rate(gpu);
  t.compute_s = work.flops / 2 * kSlotsPerFma / (d(gpu.sms) * kSlotsPerSm * gpu.clock_hz);
  const double l2_s = gathered / (gpu.l2_bandwidth * gpu.stream.l2_share);
  const std::int64_t longest =
      s.longest_row > 0 ? s.longest_row : ceil_div(s.nonzeros, std::max<std::int64_t>(1, s.rows));
  const double longest_s = d(longest) * (gpu.stream.latency_s + gpu.stream.miss_latency_s) / kGathersInFlight;
  t.time_s = t.fixed_s + std::max(norm4(t.compute_s, t.memory_s, l2_s), longest_s);
  return t;
}

FftPlan plan_fft(const GpuParams& gpu, const Fft& f) {
  FftPlan plan;
  // Half of an SM's memory: two blocks overlap loading and computing.
  const double points = std::max(2.0, d(gpu.l1_bytes) / 2 / kFftPointBytes);
  double lengths[2] = {d(f.n0), d(f.n1)};
  bool plain = true;
  for (double& n : lengths) {
    if (n <= 1 || is_smooth(static_cast<std::int64_t>(n))) continue;
    double padded = 1;
    while (padded < 2 * n - 1) padded *= 2;
    plan.work *= 3 * padded / n;
    n = padded;
    plain = false;
  }
  if (plain && lengths[0] * lengths[1] <= points) {
    plan.passes = 1;
    return plan;
  }
  for (const double n : lengths)
    if (n > 1) plan.passes += axis_passes(n, points);
  return plan;
}

TiledTime tiled_fft(const GpuParams& gpu, const Fft& f, DType dtype) {
  const Work work = shape_work(f, d(bytes_of(dtype)));
  if (work.read_bytes + work.write_bytes == 0) return {};
  const FftPlan plan = plan_fft(gpu, f);
  const double once = work.read_bytes + work.write_bytes;
  const double traffic = once * d(plan.passes) * plan.work;
  const double hot = hot_share(gpu, once * plan.work);
  const double l2_rate = std::max(memory_rate(gpu), gpu.l2_bandwidth * gpu.stream.l2_share);
  TiledTime t;
  t.fixed_s = d(plan.passes) * gpu.stream.fixed_s + d(plan.passes - 1) * gpu.launch_graph_s;
  t.dram_bytes = once + (traffic - once) * (1 - hot);
  t.memory_s = t.dram_bytes * (1 - hot) / memory_rate(gpu) + (traffic - t.dram_bytes * (1 - hot)) / l2_rate;
  t.compute_s = work.flops * plan.work / (gpu.peak.fp32 * kFftPeakShare);
  t.time_s = t.fixed_s + norm4(t.compute_s, t.memory_s);
  return t;
}

Gemm implicit_gemm(const Conv& c) {
  return {.m = c.batch * c.out_height() * c.out_width(),
          .n = ceil_div(c.out_channels, c.parts()),
          .k = ceil_div(c.in_channels, c.parts()) * c.kernel_height * c.kernel_width,
          .batch = c.parts()};
}

TiledTime tiled_conv(const GpuParams& gpu, const Conv& c, DType dtype) {
  const Work work = shape_work(c, d(bytes_of(dtype)));
  if (work.flops == 0) return {};
  const TiledTime product = plan_gemm(gpu, implicit_gemm(c), dtype).time;
  TiledTime t;
  t.fixed_s = product.fixed_s;
  t.dram_bytes = work.read_bytes + work.write_bytes;
  t.compute_s = product.compute_s;
  t.memory_s = t.dram_bytes / (gpu.memory_bandwidth * gpu.gemm.memory_efficiency);
  t.time_s = t.fixed_s + norm4(t.compute_s, t.memory_s);
  return t;
}

TiledTime tiled_fused(const GpuParams& gpu, const Fused& f, DType dtype) {
  const Work work = shape_work(f, d(bytes_of(dtype)));
  if (work.flops == 0 && work.read_bytes + work.write_bytes == 0) return {};
  const double own = shape_work(f.gemm, 1).flops;
  const double others = d(f.other_matrix_flops);
  TiledTime t;
  t.fixed_s = gpu.stream.fixed_s;
  double matrix_s = others / (matrix_peak(gpu, dtype) * gpu.gemm.efficiency);
  double product_s = 0;
  if (own > 0) {
    const TiledTime product = plan_gemm(gpu, f.gemm, dtype).time;
    matrix_s = product.compute_s * (1 + others / own);
    t.fixed_s = product.fixed_s;
    if (product.dram_bytes > 0)
      product_s =
          (product.time_s - product.fixed_s) * std::min(1.0, (work.read_bytes + work.write_bytes) / product.dram_bytes);
  }
  const double vector_s = d(f.vector_flops) / gpu.peak.fp32;
  t.dram_bytes = work.read_bytes + work.write_bytes;
  t.memory_s = t.dram_bytes / memory_rate(gpu);
  t.compute_s = std::max(matrix_s, vector_s);
  t.time_s = t.fixed_s + std::max(product_s, norm4(matrix_s, vector_s, t.memory_s));
  return t;
}

}  // namespace orrery::hw
