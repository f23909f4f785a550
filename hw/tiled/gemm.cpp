// Matrix products of the `tiled` model; equations in hw/tiled/tiled.hpp.
#include <algorithm>
#include <array>
#include <cmath>

#include "hw/base/real.hpp"
#include "hw/tiled/tiled.hpp"

namespace orrery::hw {
namespace {

struct Tile {
  std::int64_t m, n;
};
/// Thread-block tiles that matrix libraries ship for 16-bit tensor units, large ones first.
constexpr std::array<Tile, 8> kTiles{
    {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}, {32, 64}, {16, 64}}};
constexpr std::array<std::int64_t, 9> kSplits{1, 2, 3, 4, 6, 8, 12, 16, 32};
constexpr std::int64_t kMinTileM = 16;
constexpr std::int64_t kMinTileN = 64;
constexpr std::int64_t kMinSplitK = 128;               // a thinner slice of k would be all prologue
constexpr double kTilesPerSmSplit = 4;                 // with more thread blocks than that, splitting only adds work
constexpr std::int64_t kResidentTile = 2 * 128 * 128;  // accumulators that the registers of an SM hold
constexpr double kMostResident = 8;
constexpr double kPartialBytes = 4;      // partial results of a split are fp32
constexpr double kReferenceElement = 2;  // bytes of the operands that constants in steps of k hold for

/// Share of a working set that repeated calls find in the L2.
double resident_share(const GpuParams& gpu, double working_set) {
  const double partition = d(gpu.l2_bytes) / d(gpu.l2_partitions);
  const double full = gpu.gemm.l2_full * partition, none = gpu.gemm.l2_none * partition;
  if (working_set <= full) return 1;
  if (working_set >= none) return 0;
  return (none - working_set) / (none - full);
}

/// Bytes that one call moves from and to device memory at least.
double first_touch_bytes(const GpuParams& gpu, double a, double b, double c, const GemmConditions& conditions) {
  if (conditions.weight_copies <= 0) return a + b + c;
  const double all = resident_share(gpu, a + d(conditions.weight_copies) * b + c);
  const double activations = std::max(all, resident_share(gpu, a + b + c));  // touched by every call
  return a * (1 - activations) + (b + c) * (1 - all);
}

/// DRAM bytes of a plan: first touches, and of operands beyond the L2 what every wave of thread blocks reads anew.
double dram_bytes(const GpuParams& gpu, const Gemm& g, const GemmPlan& plan, const MatrixOperands& e, double first) {
  const double operands = (d(g.m) * e.activation + d(g.n) * e.weight) * d(g.k);
  const double l2 = d(gpu.l2_bytes);
  if (operands <= l2) return first;
  const std::int64_t rows = ceil_div(g.m, plan.tile_m), columns = ceil_div(g.n, plan.tile_n);
  const double wave = std::min(d(gpu.sms), d(rows) * d(columns));
  const double wave_rows = std::min(d(rows), std::sqrt(wave)), wave_columns = wave / wave_rows;
  const double waves = d(rows) * d(columns) / wave;
  const double read = waves * (wave_rows * d(plan.tile_m) * e.activation + wave_columns * d(plan.tile_n) * e.weight) *
                      d(g.k) * d(g.batch);
  const double once = operands * d(g.batch);
  return first + std::max(0.0, read - once) * (1.0 - l2 / operands);
}

/// Waves of `ctas` thread blocks over `sms`; a partial wave after the second begins to overlap its predecessor.
double waves_of(double ctas, double sms, double smoothing) {
  const double waves = ctas / sms, whole = std::ceil(waves);
  if (whole <= 2) return std::max(1.0, whole);
  return whole - smoothing * (whole - waves) * (1 - 1 / (whole - 1));
}

/// What every candidate shares: rates as times a unit of work.
struct Rates {
  double m, n, batch, activation, weight;
  double sms, s_per_flop, s_per_l2_byte, cycle_s, fill_k, latency_s, memory_s;
  std::int64_t most_splits;
};

/// Best plan among the splits of one tile; replaces `best` where faster.
void try_tile(const GpuParams& gpu, const Gemm& g, const Tile tile, const Rates& r, GemmPlan& best, double& best_s) {
  const GemmConstants& c = gpu.gemm;
  const double tiles = d(ceil_div(g.m, tile.m)) * d(ceil_div(g.n, tile.n)) * r.batch;
  const double area = d(tile.m * tile.n);
  const double resident = std::clamp(d(kResidentTile) / area, 1.0, kMostResident);
  const double loaded =
      std::min(d(tile.m), r.m) * r.activation + std::min(d(tile.n), r.n) * r.weight;  // bytes a step of k
  for (const std::int64_t split : kSplits) {
    const double ctas = tiles * d(split);
    if (split > 1 && (split > r.most_splits || ctas > kTilesPerSmSplit * r.sms || g.k < split * kMinSplitK)) break;
    const double k = d(ceil_div(g.k, split));
    const double compute_s = waves_of(ctas, r.sms, c.wave_smoothing) * 2.0 * area * (k + r.fill_k) * r.s_per_flop;
    const double reduce_s = split == 1 ? 0
                                       : c.split_cycles * r.cycle_s + c.split_traffic * 2.0 * d(split) * r.m * r.n *
                                                                          r.batch * kPartialBytes / gpu.l2_bandwidth;
    const double latency_s = std::ceil(ctas / (r.sms * resident)) * k * r.latency_s;
    const double l2_s = ctas * loaded * k * r.s_per_l2_byte;
    const double on_chip_s = std::max(latency_s, l2_s);
    if (best.tile_m != 0 && std::max(compute_s, std::max(on_chip_s, r.memory_s)) + reduce_s >= best_s) continue;
    const double busy_s = norm4(compute_s, r.memory_s, l2_s, latency_s) + reduce_s;
    if (best.tile_m != 0 && busy_s >= best_s) continue;
    best_s = busy_s;
    best = {tile.m, tile.n, split, {busy_s, std::max(compute_s, on_chip_s), r.memory_s, 0, 0}};
  }
}

}  // namespace

double power_stretch(const GpuParams& gpu, double utilisation, double activity) {
  const double budget = gpu.power.tdp_w - gpu.power.idle_w - gpu.power.active_w;
  if (budget <= 0 || gpu.gemm.peak_power <= 0) return 1;
  double x = utilisation * activity * gpu.gemm.peak_power * gpu.power.tdp_w / budget;
  x *= x;
  x *= x;
  return std::sqrt(std::sqrt(std::sqrt(std::sqrt(1 + x * x))));
}

GemmPlan plan_gemm(const GpuParams& gpu, const Gemm& g, DType dtype, const GemmConditions& conditions) {
  if (g.m <= 0 || g.n <= 0 || g.k <= 0 || g.batch <= 0) return {};
  const GemmConstants& c = gpu.gemm;
  const double element = d(bytes_of(dtype)), m = d(g.m), n = d(g.n), k = d(g.k), batch = d(g.batch);
  const MatrixOperands e = matrix_operands(gpu, dtype, g.weights);
  const double peak = e.peak, sms = d(gpu.sms), cycle_s = 1 / gpu.clock_hz;
  const double first = first_touch_bytes(gpu, m * k * e.activation * batch, n * k * e.weight * batch,
                                         m * n * element * batch, conditions);
  const bool whole = g.m > 1 && k < c.unsplit_k && m * n * k < c.unsplit_below;
  const Rates rates{
      .m = m,
      .n = n,
      .batch = batch,
      .activation = e.activation,
      .weight = e.weight,
      .sms = sms,
      .s_per_flop = sms / (peak * c.efficiency),
      .s_per_l2_byte = 1 / (gpu.l2_bandwidth * c.l2_delivery * (conditions.multicast ? c.multicast : 1.0)),
      .cycle_s = cycle_s,
      .fill_k = c.fill_k * kReferenceElement / e.activation,
      .latency_s = c.k_cycles * cycle_s * e.activation / kReferenceElement,
      .memory_s = first / (gpu.memory_bandwidth * c.memory_efficiency),
      .most_splits = whole ? 1 : kSplits.back()};
  GemmPlan best;
  double best_s = 0;
  for (const Tile tile : kTiles) {
    // Half the tile does the same with less.
    if ((tile.m > kMinTileM && tile.m >= 2 * g.m) || (tile.n > kMinTileN && tile.n >= 2 * g.n)) continue;
    try_tile(gpu, g, tile, rates, best, best_s);
  }
  TiledTime& t = best.time;
  t.time_s += c.exposed_write * m * n * element * batch / (gpu.memory_bandwidth * c.memory_efficiency);
  // Power is a mean over a call and the rest that follows it.
  const double stretch =
      power_stretch(gpu, 2.0 * m * n * k * batch / (peak * (t.time_s + conditions.rest_s)), conditions.activity);
  t.compute_s *= stretch;
  t.fixed_s = c.fixed_cycles * cycle_s;
  t.time_s = t.time_s * stretch + t.fixed_s;
  t.dram_bytes = dram_bytes(gpu, g, best, e, first);
  return best;
}

}  // namespace orrery::hw
