// Matrix products of the `tiled` model; equations in hw/tiled.hpp.
#include <algorithm>
#include <array>
#include <cmath>

#include "hw/tiled.hpp"

namespace orrery::hw {
namespace {

struct Tile {
  std::int64_t m, n;
};
/// Thread-block tiles that matrix libraries ship for 16-bit tensor units, large ones first.
constexpr std::array<Tile, 10> kTiles{
    {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 256}, {64, 64}, {32, 256}, {32, 128}, {32, 64}}};
constexpr std::int64_t kMinTileM = 32;
constexpr std::int64_t kMaxSplit = 8;
constexpr std::int64_t kMinSplitK = 128;  // a thinner slice of k would be all prologue
constexpr double kPartialBytes = 4;       // partial results of a split are fp32

double d(std::int64_t value) {
  return static_cast<double>(value);
}

/// DRAM bytes of a plan: compulsory, and of operands beyond the L2 what every wave of thread blocks reads anew.
double dram_bytes(const GpuParams& gpu, const Gemm& g, const GemmPlan& plan, double element, double compulsory) {
  const double operands = (d(g.m) + d(g.n)) * d(g.k) * element;
  const double l2 = d(gpu.l2_bytes);
  if (operands <= l2) return compulsory;
  const std::int64_t rows = ceil_div(g.m, plan.tile_m), columns = ceil_div(g.n, plan.tile_n);
  const double wave = std::min(d(gpu.sms), d(rows) * d(columns));
  const double wave_rows = std::min(d(rows), std::sqrt(wave)), wave_columns = wave / wave_rows;
  const double waves = d(rows) * d(columns) / wave;
  const double read =
      waves * (wave_rows * d(plan.tile_m) + wave_columns * d(plan.tile_n)) * d(g.k) * element * d(g.batch);
  const double once = operands * d(g.batch);
  return compulsory + std::max(0.0, read - once) * (1.0 - l2 / operands);
}

}  // namespace

double norm2(double a, double b) {
  return std::sqrt(a * a + b * b);
}

double norm4(double a, double b, double c) {
  const double top = std::max(a, std::max(b, c));
  if (top <= 0) return 0;
  a /= top;
  b /= top;
  c /= top;
  a *= a;
  b *= b;
  c *= c;
  return top * std::sqrt(std::sqrt(a * a + b * b + c * c));
}

GemmPlan plan_gemm(const GpuParams& gpu, const Gemm& g, DType dtype) {
  if (g.m <= 0 || g.n <= 0 || g.k <= 0 || g.batch <= 0) return {};
  const GemmConstants& c = gpu.gemm;
  const double element = d(bytes_of(dtype));
  const double m = d(g.m), n = d(g.n), batch = d(g.batch), sms = d(gpu.sms);
  const double sm_rate = matrix_peak(gpu, dtype) / sms * c.efficiency;
  const double bytes = ((m + n) * d(g.k) + m * n) * element * batch;
  const double s_per_byte = 1.0 / (gpu.memory_bandwidth * c.memory_efficiency);
  const double s_per_cta_byte = 1.0 / c.cta_bandwidth;
  const double s_per_l2_byte = 1.0 / (gpu.l2_bandwidth * c.l2_delivery);
  GemmPlan best;
  double best_s = 0;
  for (const Tile tile : kTiles) {
    if (tile.m > kMinTileM && tile.m >= 2 * g.m) continue;  // half the tile does the same with less
    const double tiles = d(ceil_div(g.m, tile.m)) * d(ceil_div(g.n, tile.n)) * batch;
    for (std::int64_t split = 1; split <= kMaxSplit; split *= 2) {
      if (split > 1 && (tiles * d(split) > 4 * sms || g.k < split * kMinSplitK)) break;
      const double ctas = tiles * d(split);
      const double k = d(ceil_div(g.k, split));
      const double w = ctas / sms;
      const double whole = std::ceil(w);
      const double waves = std::max(1.0, whole - c.wave_smoothing * (whole - w));
      const double compute_s = waves * 2.0 * d(tile.m * tile.n) * (k + c.fill_k) / sm_rate;
      const double cta_bytes = (std::min(d(tile.m), m) + d(tile.n)) * k * element;
      const double memory_s = bytes * s_per_byte + cta_bytes * s_per_cta_byte;
      const double l2_s = ctas * cta_bytes * s_per_l2_byte;
      double busy_s = norm4(compute_s, memory_s, l2_s);
      if (split > 1) busy_s += c.split_s + 2.0 * d(split) * m * n * batch * kPartialBytes / gpu.l2_bandwidth;
      if (best.tile_m == 0 || busy_s < best_s) {
        best_s = busy_s;
        best = {tile.m, tile.n, split, {c.fixed_s + busy_s, std::max(compute_s, l2_s), memory_s, c.fixed_s, bytes}};
      }
    }
  }
  best.time.dram_bytes = dram_bytes(gpu, g, best, element, bytes);
  return best;
}

}  // namespace orrery::hw
