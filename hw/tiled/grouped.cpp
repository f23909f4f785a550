#include "hw/tiled/grouped.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "hw/base/arithmetic.hpp"
#include "hw/base/kernel_builders.hpp"
#include "hw/base/kernel_work.hpp"
#include "hw/base/real.hpp"
#include "hw/tiled/stream.hpp"

namespace orrery::hw {
namespace {

struct GroupedTile {
  std::size_t height;  ///< index into kGroupTiles
  std::int64_t n;
};
constexpr std::array<GroupedTile, 9> kGroupedTiles{
    {{0, 32}, {0, 64}, {0, 128}, {1, 64}, {1, 128}, {2, 64}, {2, 128}, {3, 128}, {3, 256}}};
/// Share of a matrix instruction's rows that a tile of 16, 32, 64 and 128 rows uses.
constexpr std::array<double, 4> kRowsShare{0.25, 0.5, 0.85, 1.0};
constexpr double kStepK = 64;              // k steps of a tile
constexpr std::int64_t kSpecialised = 16;  // sizes that are multiples of this have known alignment
constexpr int kSquaredReluPasses = 3;

double pass_time(const GpuParams& gpu, const Kernel& kernel) {
  const auto& shape = std::get<Streaming>(kernel.shape);
  return gpu.launch_s() + tiled_streaming(gpu, shape, kernel.op, kernel.dtype).time_s;
}

}  // namespace

GroupedPlan plan_grouped(const GpuParams& gpu, const GroupedGemm& g, DType dtype, Weights where) {
  const double element = d(bytes_of(dtype));
  if (shape_work(g, element).flops <= 0) return {};
  const MatrixOperands e = matrix_operands(gpu, dtype, g.weights);
  const MoeConstants& c = gpu.moe;
  const double n = d(g.n), sms = d(gpu.sms);
  const double weights = d(g.groups) * n * d(g.k) * e.weight;
  const double hot = where == Weights::hot ? saturating(c.l2_reach * d(gpu.l2_bytes) / weights) : 0.0;
  const double bytes = weights * (1 - hot) + d(g.rows) * (n * element + d(g.k) * e.activation);
  const double bytes_s = bytes / (gpu.memory_bandwidth * c.memory_efficiency);
  const double k = std::ceil(d(g.k) / kStepK) * kStepK;
  const double sm_rate = e.peak / sms * c.efficiency;
  const bool narrow = g.weights == WeightFormat::as_dtype && (g.n % kSpecialised != 0 || g.k % kSpecialised != 0);
  GroupedPlan best;
  for (const GroupedTile tile : kGroupedTiles) {
    const double bm = d(kGroupTiles[tile.height]), bn = d(tile.n);
    const double ctas = d(g.row_tiles[tile.height]) * d(ceil_div(g.n, tile.n));
    const double w = ctas / sms, whole = std::ceil(w);
    const double waves = std::max(1.0, whole - c.wave_smoothing * (whole - w));
    const double compute_s = waves * (2 * bm * bn * k / (sm_rate * kRowsShare[tile.height]) + c.block_start_s);
    const double operand = (bm * e.activation + std::min(bn, n) * e.weight) * d(g.k);
    const double memory_s = bytes_s + operand / c.cta_bandwidth;
    const double l2_s = ctas * operand / (gpu.l2_bandwidth * c.l2_delivery);
    const double narrow_s = narrow ? ctas * (bm + bn) * k / (c.unaligned_rate * sms * gpu.clock_hz) : 0.0;
    const double time_s = norm4(norm4(compute_s, narrow_s), memory_s, l2_s);
    if (best.tile_m == 0 || time_s < best.time.time_s) {
      best = {kGroupTiles[tile.height], tile.n, {time_s, std::max({compute_s, l2_s, narrow_s}), memory_s, 0, bytes}};
    }
  }
  return best;
}

TiledTime tiled_grouped(const GpuParams& gpu, const GroupedGemm& shape, DType dtype) {
  return plan_grouped(gpu, shape, dtype).time;
}

double moe_layer_time(const GpuParams& gpu, const MoeLayer& layer, std::span<const std::int64_t> rows, DType dtype,
                      Weights weights) {
  if (layer.tokens <= 0) return 0;
  const MoeConstants& c = gpu.moe;
  const std::int64_t all_rows = layer.tokens * layer.top_k;
  const std::int64_t up_width = layer.intermediate * (layer.gated ? 2 : 1);
  const GroupedGemm up = grouped_gemm(rows, up_width, layer.hidden);
  const GroupedGemm down = grouped_gemm(rows, layer.hidden, layer.intermediate);
  double time_s = c.sort_s + 2 * gpu.launch_s();
  time_s += plan_grouped(gpu, up, dtype, weights).time.time_s + plan_grouped(gpu, down, dtype, weights).time.time_s;
  if (layer.gated) {
    time_s += pass_time(gpu, activation_kernel(Activation::silu, true, all_rows, layer.intermediate, dtype));
  } else {
    const Kernel pass{OpClass::copy, dtype, copy_kernel(all_rows * layer.intermediate * bytes_of(dtype)).shape};
    time_s += kSquaredReluPasses * pass_time(gpu, pass);
  }
  const std::int64_t e = bytes_of(dtype);
  const Streaming combine{all_rows * layer.hidden * e, layer.tokens * layer.hidden * e, 0, 0, Pass::expert_sum};
  time_s += gpu.launch_s() + tiled_streaming(gpu, combine, OpClass::scatter, dtype).time_s;
  if (layer.expert_parallel) {
    const Streaming zeros{0, (all_rows - up.rows) * (up_width + layer.hidden) * e, 0};
    time_s += c.remote_s + tiled_streaming(gpu, zeros, OpClass::copy, dtype).memory_s;
  }
  return time_s;
}

}  // namespace orrery::hw
