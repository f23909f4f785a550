#include "hw/npu/npu_gemm.hpp"

#include <algorithm>
#include <cmath>

#include "hw/tiled.hpp"

namespace orrery::hw {
namespace {

constexpr double kSumBytes = 4;           // partial sums are fp32
constexpr double kNever = 1e30;           // a path that does not limit
constexpr int kEdges = 5;                 // tile edges: base x 1, 2, 4, 8, 16
constexpr std::int64_t kSystolicBase = 128;

double d(std::int64_t value) {
  return static_cast<double>(value);
}
std::int64_t round_up(std::int64_t x, std::int64_t multiple) {
  return ceil_div(x, multiple) * multiple;
}
double path(double bytes_per_cycle, double clock_hz) {
  return bytes_per_cycle > 0 ? bytes_per_cycle * clock_hz : kNever;
}

/// Everything about a product that does not depend on the tile.
struct Context {
  const NpuParams& npu;
  const Gemm& g;
  DType dtype;
  UnitEdges unit;
  double element, core_s_per_byte, store_s_per_byte, left_s_per_byte, right_s_per_byte, s_per_cycle, fill_s;
  double operands, compulsory;  // bytes: one product's operands; all compulsory traffic of the batch
  std::int64_t m, n, k;         // padded
};

Context context_of(const NpuParams& npu, const Gemm& g, DType dtype) {
  const UnitEdges u = unit_edges(npu.matrix);
  Context c{npu, g, dtype, u};
  c.m = round_up(g.m, u.m);
  c.n = round_up(g.n, u.n);
  c.k = round_up(g.k, u.k);
  c.element = d(bytes_of(dtype));
  const double clock = npu.clock_hz;
  c.core_s_per_byte = 1.0 / std::min(path(npu.dma.l2_read, clock), npu.core_bandwidth > 0 && npu.l2_bytes == 0
                                                                       ? npu.core_bandwidth
                                                                       : kNever);
  c.store_s_per_byte = 1.0 / std::min(path(npu.dma.l2_write, clock), path(npu.dma.result, clock));
  c.left_s_per_byte = 1.0 / path(npu.dma.l1_left, clock);
  c.right_s_per_byte = 1.0 / path(npu.dma.l1_right, clock);
  c.s_per_cycle = 1.0 / (clock * npu.matrix.efficiency);
  const bool crosses = npu.matrix.kind == MatrixKind::systolic && npu.matrix.preload;
  const double crossing = crosses ? d(2 * npu.matrix.rows + npu.matrix.columns - 2) / clock : 0.0;
  c.fill_s = npu.memory_latency_s + npu.dma.fixed_s + crossing;
  c.operands = (d(c.m) + d(c.n)) * d(c.k) * c.element;
  c.compulsory = (c.operands + d(c.m) * d(c.n) * c.element) * d(g.batch);
  return c;
}

/// Bytes of operands that the device memory delivers for a whole plan.
double operand_traffic(const Context& c, std::int64_t tm, std::int64_t tn, double rows, double columns, double active,
                       double waves) {
  const double batch = d(c.g.batch);
  if (c.npu.l2_bytes == 0) return rows * columns * batch * (d(tm) + d(tn)) * d(c.k) * c.element;
  const double once = c.operands * batch;
  const double l2 = d(c.npu.l2_bytes);
  if (c.operands <= l2) return once;
  const double wave_rows = std::min(rows, std::sqrt(active)), wave_columns = active / wave_rows;
  const double read = waves * (wave_rows * d(tm) + wave_columns * d(tn)) * d(c.k) * c.element;
  return once + std::max(0.0, read - once) * (1.0 - l2 / c.operands);
}

/// Largest step along k that the scratchpads hold with tiles of tm x tn; 0: none.
std::int64_t largest_step(const Context& c, std::int64_t tm, std::int64_t tn, bool one_step) {
  const Scratchpads& s = c.npu.scratch;
  const double sums = d(tm) * d(tn) * kSumBytes;
  double room = d(s.l1);
  if (s.accumulator > 0) {
    if (sums > d(s.accumulator)) return 0;
  } else {
    room -= sums;
  }
  if (s.left > 0 && 2.0 * d(tm) * d(c.unit.k) * c.element > d(s.left)) return 0;
  if (s.right > 0 && 2.0 * d(tn) * d(c.unit.k) * c.element > d(s.right)) return 0;
  const double per_k = (d(tm) + d(tn)) * c.element;
  if (one_step && per_k * d(c.k) <= room) return c.k;
  const double k = room / (2.0 * per_k);
  if (k < d(c.unit.k)) return 0;
  return std::min(c.k, static_cast<std::int64_t>(k) / c.unit.k * c.unit.k);
}

/// The pipeline as its busiest engine sees it; `steady_s` and `time_s` of a plan whose steps are known.
void add_times(NpuGemmPlan& p, double step_s) {
  const double waves = d(p.waves), per_tile = d(p.steps_per_tile), steps = waves * per_tile;
  const double held = p.results_doubled ? 1 : waves;  // stores that the matrix unit waits for
  const double unit = p.load_s + steps * (p.compute_s + step_s) + held * p.store_s;
  const double load = steps * (p.load_path_s + step_s) + p.compute_s + p.store_s;
  const double memory = steps * (p.dram_load_s + step_s) + (waves - 1) * p.dram_store_s + p.compute_s + p.store_s;
  const double store = p.load_s + per_tile * (p.compute_s + step_s) + waves * p.store_path_s;
  p.time_s = p.fill_s + std::max(std::max(unit, load), std::max(memory, store));
  p.steady_s = std::max(std::max(p.compute_s + (p.results_doubled ? 0.0 : p.store_s / per_tile), p.load_path_s),
                        std::max(p.store_path_s / per_tile, p.dram_load_s + p.dram_store_s / per_tile));
}

NpuGemmPlan plan_of(const Context& c, std::int64_t tm, std::int64_t tn, std::int64_t tk) {
  const NpuParams& npu = c.npu;
  NpuGemmPlan p;
  p.tile_m = tm;
  p.tile_n = tn;
  p.tile_k = tk;
  const std::int64_t rows = ceil_div(c.m, tm), columns = ceil_div(c.n, tn);
  p.tiles = rows * columns * c.g.batch;
  p.active = std::min(p.tiles, npu.cores);
  p.waves = ceil_div(p.tiles, npu.cores);
  p.steps_per_tile = ceil_div(c.k, tk);
  const double active = d(p.active), waves = d(p.waves), per_tile = d(p.steps_per_tile);
  const double steps = waves * per_tile;
  const double left = d(tm) * d(tk) * c.element, right = d(tk) * d(tn) * c.element, result = d(tm) * d(tn) * c.element;
  p.compute_s = std::max(matrix_cycles(npu.matrix, tm, tn, tk, c.dtype) * c.s_per_cycle,
                         std::max(left * c.left_s_per_byte, right * c.right_s_per_byte));
  if (matrix_rate(npu.matrix, c.dtype) <= 0)  // fp32 on the vector units
    p.compute_s = d(tm) * d(tn) * d(tk) * c.element /
                  (d(npu.vector.bytes_per_cycle) * npu.vector.efficiency * npu.clock_hz);
  const double s_per_dram_byte = 1.0 / dram_rate(npu, active);
  const double reads = operand_traffic(c, tm, tn, d(rows), d(columns), active, waves);
  const double writes = d(c.m) * d(c.n) * c.element * d(c.g.batch);
  p.dram_load_s = reads / steps * s_per_dram_byte;
  p.dram_store_s = writes / waves * s_per_dram_byte;
  const double shared = npu.l2_bandwidth > 0 ? active / npu.l2_bandwidth : 0.0;
  p.load_path_s = (left + right) * std::max(c.core_s_per_byte, shared);
  p.store_path_s = result * std::max(c.store_s_per_byte, shared);
  p.load_s = std::max(p.load_path_s, p.dram_load_s);
  p.store_s = std::max(p.store_path_s, p.dram_store_s);
  p.results_doubled = npu.scratch.accumulator == 0 || 2 * d(tm) * d(tn) * kSumBytes <= d(npu.scratch.accumulator);
  p.fill_s = c.fill_s;
  add_times(p, npu.step_s);
  p.dram_bytes = reads + writes;
  return p;
}

}  // namespace

UnitEdges unit_edges(const MatrixUnit& unit) {
  if (unit.kind == MatrixKind::cube) return {unit.rows, unit.columns, unit.depth};
  switch (unit.dataflow) {
    case Dataflow::ws:
      return {1, unit.columns, unit.rows};
    case Dataflow::os:
      return {unit.rows, unit.columns, 1};
    case Dataflow::is:
      return {unit.columns, 1, unit.rows};
  }
  return {};
}

double matrix_cycles(const MatrixUnit& unit, std::int64_t m, std::int64_t n, std::int64_t k, DType dtype) {
  const double rate = std::max(matrix_rate(unit, dtype), 1e-9), units = d(unit.per_core);
  const UnitEdges u = unit_edges(unit);
  const double blocks = d(ceil_div(m, u.m)) * d(ceil_div(n, u.n)) * d(ceil_div(k, u.k));
  if (unit.kind == MatrixKind::cube) return std::ceil(blocks / units) / rate;
  const Dataflow flow = unit.dataflow;
  const double stream = d(flow == Dataflow::ws ? m : flow == Dataflow::is ? n : k);  // what moves through the array
  const double folds = blocks / stream;
  const double crossing = d(flow == Dataflow::os ? unit.rows + unit.columns - 2
                                                          : 2 * unit.rows + unit.columns - 2);
  const double shift = unit.preload && flow != Dataflow::os ? d(unit.rows) : 0.0;
  const double added = unit.preload ? 0.0 : crossing;
  const double by_fold = std::ceil(folds / units) * std::max(stream / rate + added, shift);
  const double by_stream = folds * std::max(std::ceil(stream / units) / rate + added, shift);
  return std::min(by_fold, by_stream);
}

double dram_rate(const NpuParams& npu, double active) {
  const double all = npu.memory_bandwidth * npu.memory_efficiency;
  return npu.core_bandwidth > 0 ? std::min(all, active * npu.core_bandwidth) : all;
}

NpuGemmPlan plan_npu_gemm(const NpuParams& npu, const Gemm& g, DType dtype) {
  if (g.m <= 0 || g.n <= 0 || g.k <= 0 || g.batch <= 0) return {};
  const Context c = context_of(npu, g, dtype);
  if (npu.whole_operands) {
    const std::int64_t rows = std::min(c.m, round_up(ceil_div(c.m, npu.cores), c.unit.m));
    const double held = (d(rows) + d(c.n)) * d(c.k) * c.element + d(rows) * d(c.n) * kSumBytes;
    if (g.batch * ceil_div(c.m, rows) <= npu.cores && 2 * held <= d(npu.scratch.l1)) return plan_of(c, rows, c.n, c.k);
  }
  const bool cube = npu.matrix.kind == MatrixKind::cube;
  const std::int64_t base_m = cube ? npu.matrix.rows : kSystolicBase, base_n = cube ? npu.matrix.columns : kSystolicBase;
  NpuGemmPlan best;
  for (int i = 0; i < kEdges; ++i) {
    const std::int64_t tm = std::min(round_up(base_m << i, c.unit.m), c.m);
    for (int j = 0; j < kEdges; ++j) {
      const std::int64_t tn = std::min(round_up(base_n << j, c.unit.n), c.n);
      const std::int64_t tiles = ceil_div(c.m, tm) * ceil_div(c.n, tn) * g.batch;
      const std::int64_t most = largest_step(c, tm, tn, tiles <= npu.cores);
      if (most == 0) break;  // wider tiles hold even less
      const std::int64_t steps = ceil_div(c.k, most);
      for (std::int64_t s = steps; s <= 4 * steps; s *= 2) {
        const std::int64_t tk = std::min(most, round_up(ceil_div(c.k, s), c.unit.k));
        if (s > 1 && steps == 1 && 2 * (tm + tn) * tk * bytes_of(dtype) > npu.scratch.l1) continue;
        const NpuGemmPlan p = plan_of(c, tm, tn, tk);
        if (best.tiles == 0 || p.time_s < best.time_s) best = p;
        if (tk <= c.unit.k) break;
      }
      if (tn == c.n) break;
    }
    if (tm == c.m) break;
  }
  if (best.tiles == 0)  // a format so wide that not even the smallest tile fits: one unit step at a time
    best = plan_of(c, std::min(c.unit.m, c.m), std::min(c.unit.n, c.n), std::min(c.unit.k, c.k));
  return best;
}

}  // namespace orrery::hw
