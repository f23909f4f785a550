#include "hw/npu/npu_gemm.hpp"

#include <algorithm>
#include <cmath>

#include "hw/base/arithmetic.hpp"
#include "hw/base/real.hpp"

namespace orrery::hw {
namespace {

constexpr double kSumBytes = 4;      // partial sums are fp32
constexpr double kUnlimited = 1e30;  // a path that does not limit
constexpr int kSizes = 3;            // edges of a tile that are tried at least: the largest useful one, and halves
constexpr std::int64_t kCubeEdge = 256, kSystolicEdge = 2048;  // largest edges

/// ceil(a / b) of whole numbers below 2^53.
double up(double a, double b) {
  const double q = a / b;
  const double whole = d(static_cast<std::int64_t>(q));
  return whole < q ? whole + 1 : whole;
}
double path(double bytes_per_cycle, double clock_hz) {
  return bytes_per_cycle > 0 ? bytes_per_cycle * clock_hz : kUnlimited;
}

/// Everything about a product that does not depend on the tile. Lengths are doubles: divisions of them are what costs.
struct Context {
  const NpuParams& npu;
  DType dtype;
  UnitEdges unit;
  double batch, cores, element, rate;
  double weight;  // bytes of a weight in memory; it is widened on its way to the scratchpads
  double core_s_per_byte, store_s_per_byte, left_s_per_byte, right_s_per_byte, s_per_cycle, vector_s_per_mac, fill_s;
  double m, n, k;           // padded to the unit's edges
  double operands, writes;  // bytes: operands of one product of the batch, results of all
  double room, sums_room, left_room, right_room;
};

Context context_of(const NpuParams& npu, const Gemm& g, DType dtype) {
  const UnitEdges u = unit_edges(npu.matrix);
  Context c{.npu = npu, .dtype = dtype, .unit = u};
  c.batch = d(g.batch);
  c.cores = d(npu.cores);
  c.m = d(round_up(g.m, u.m));
  c.n = d(round_up(g.n, u.n));
  c.k = d(round_up(g.k, u.k));
  c.element = d(bytes_of(dtype));
  c.weight = weight_element(g.weights, dtype);
  c.rate = matrix_rate(npu.matrix, dtype);
  const double clock = npu.clock_hz;
  const double own = npu.core_bandwidth > 0 && npu.l2_bytes == 0 ? npu.core_bandwidth : kUnlimited;
  c.core_s_per_byte = 1.0 / std::min(path(npu.dma.l2_read, clock), own);
  c.store_s_per_byte = 1.0 / std::min(path(npu.dma.l2_write, clock), path(npu.dma.result, clock));
  c.left_s_per_byte = 1.0 / path(npu.dma.l1_left, clock);
  c.right_s_per_byte = 1.0 / path(npu.dma.l1_right, clock);
  c.s_per_cycle = 1.0 / (clock * npu.matrix.efficiency);
  c.vector_s_per_mac = c.element / (d(npu.vector.bytes_per_cycle) * npu.vector.efficiency * clock);
  const bool crosses = npu.matrix.kind == MatrixKind::systolic && npu.matrix.preload;
  const double crossing = crosses ? d(2 * npu.matrix.rows + npu.matrix.columns - 2) / clock : 0.0;
  c.fill_s = npu.memory_latency_s + npu.dma.fixed_s + crossing;
  c.operands = (c.m * c.element + c.n * c.weight) * c.k;
  c.writes = c.m * c.n * c.element * c.batch;
  c.room = d(npu.scratch.l1);
  c.sums_room = npu.scratch.accumulator > 0 ? d(npu.scratch.accumulator) : kUnlimited;
  c.left_room = npu.scratch.left > 0 ? d(npu.scratch.left) : kUnlimited;
  c.right_room = npu.scratch.right > 0 ? d(npu.scratch.right) : kUnlimited;
  return c;
}

/// Bytes of operands that the device memory delivers for a whole plan.
double operand_traffic(const Context& c, double tm, double tn, double rows, double columns, double active,
                       double waves) {
  if (c.npu.l2_bytes == 0) return rows * columns * c.batch * (tm * c.element + tn * c.weight) * c.k;
  const double once = c.operands * c.batch;
  const double l2 = d(c.npu.l2_bytes);
  if (c.operands <= l2) return once;
  const double wave_rows = std::min(rows, std::sqrt(active)), wave_columns = active / wave_rows;
  const double read = waves * (wave_rows * tm * c.element + wave_columns * tn * c.weight) * c.k;
  return once + std::max(0.0, read - once) * (1.0 - l2 / c.operands);
}

/// Largest step along k that the scratchpads hold with tiles of tm x tn; 0: none.
double largest_step(const Context& c, double tm, double tn, bool one_step) {
  const double sums = tm * tn * kSumBytes, uk = d(c.unit.k);
  const double room = c.npu.scratch.accumulator > 0 ? c.room : c.room - sums;
  if (sums > c.sums_room || 2 * tm * uk * c.element > c.left_room || 2 * tn * uk * c.element > c.right_room) return 0;
  const double per_k = (tm + tn) * c.element;
  if (one_step && per_k * c.k <= room) return c.k;
  const double k = room / (2 * per_k);
  if (k < uk) return 0;
  return std::min(c.k, d(static_cast<std::int64_t>(k / uk)) * uk);
}

double cycles_of(const MatrixUnit& unit, const UnitEdges& u, double m, double n, double k, double rate) {
  const double units = d(unit.per_core);
  if (unit.kind == MatrixKind::cube) {
    const double blocks = up(m, d(u.m)) * up(n, d(u.n)) * up(k, d(u.k));
    return (units == 1 ? blocks : up(blocks, units)) / rate;
  }
  const Dataflow flow = unit.dataflow;
  const double stream = flow == Dataflow::ws ? m : flow == Dataflow::is ? n : k;  // what moves through the array
  const double folds = (u.m == 1 && flow == Dataflow::ws ? 1 : up(m, d(u.m))) *
                       (flow == Dataflow::is ? 1 : up(n, d(u.n))) * (flow == Dataflow::os ? 1 : up(k, d(u.k)));
  const double crossing = d(flow == Dataflow::os ? unit.rows + unit.columns - 2 : 2 * unit.rows + unit.columns - 2);
  const double shift = unit.preload && flow != Dataflow::os ? d(unit.rows) : 0.0;
  const double added = unit.preload ? 0.0 : crossing;
  const double by_fold = up(folds, units) * std::max(stream / rate + added, shift);
  const double by_stream = folds * std::max(up(stream, units) / rate + added, shift);
  return std::min(by_fold, by_stream);
}

/// The pipeline as its busiest engine sees it; `steady_s` and `time_s` of a plan whose steps are known.
void add_times(NpuGemmPlan& p, double step_s, double waves, double per_tile) {
  const double steps = waves * per_tile;
  const double held = p.results_doubled ? 1 : waves;  // stores that the matrix unit waits for
  const double unit = p.load_s + steps * (p.compute_s + step_s) + held * p.store_s;
  const double load = steps * (p.load_path_s + step_s) + p.compute_s + p.store_s;
  const double memory = steps * (p.dram_load_s + step_s) + (waves - 1) * p.dram_store_s + p.compute_s + p.store_s;
  const double store = p.load_s + per_tile * (p.compute_s + step_s) + waves * p.store_path_s;
  p.time_s = p.fill_s + std::max(std::max(unit, load), std::max(memory, store));
  const double store_share = 1.0 / per_tile;
  p.steady_s = std::max(std::max(p.compute_s + (p.results_doubled ? 0.0 : p.store_s * store_share), p.load_path_s),
                        std::max(p.store_path_s * store_share, p.dram_load_s + p.dram_store_s * store_share));
}

/// What a tile of tm x tn fixes, whatever its steps.
struct Tiling {
  double tm, tn, tiles, active, waves, reads, s_per_dram_byte, shared;
};

Tiling tiling_of(const Context& c, double tm, double tn) {
  Tiling t{.tm = tm, .tn = tn};
  const double rows = up(c.m, tm), columns = up(c.n, tn);
  t.tiles = rows * columns * c.batch;
  t.active = std::min(t.tiles, c.cores);
  t.waves = up(t.tiles, c.cores);
  t.reads = operand_traffic(c, tm, tn, rows, columns, t.active, t.waves);
  t.s_per_dram_byte = 1.0 / dram_rate(c.npu, t.active);
  t.shared = c.npu.l2_bandwidth > 0 ? t.active / c.npu.l2_bandwidth : 0.0;
  return t;
}

NpuGemmPlan plan_of(const Context& c, const Tiling& t, double tk) {
  const NpuParams& npu = c.npu;
  NpuGemmPlan p;
  const double per_tile = up(c.k, tk);
  p.tile_m = static_cast<std::int64_t>(t.tm);
  p.tile_n = static_cast<std::int64_t>(t.tn);
  p.tile_k = static_cast<std::int64_t>(tk);
  p.tiles = static_cast<std::int64_t>(t.tiles);
  p.active = static_cast<std::int64_t>(t.active);
  p.waves = static_cast<std::int64_t>(t.waves);
  p.steps_per_tile = static_cast<std::int64_t>(per_tile);
  const double left = t.tm * tk * c.element, right = tk * t.tn * c.element, result = t.tm * t.tn * c.element;
  p.compute_s = c.rate > 0 ? cycles_of(npu.matrix, c.unit, t.tm, t.tn, tk, c.rate) * c.s_per_cycle
                           : t.tm * t.tn * tk * c.vector_s_per_mac;  // fp32 on the vector units
  p.compute_s = std::max(p.compute_s, std::max(left * c.left_s_per_byte, right * c.right_s_per_byte));
  p.dram_load_s = t.reads / (t.waves * per_tile) * t.s_per_dram_byte;
  p.dram_store_s = c.writes / t.waves * t.s_per_dram_byte;
  p.load_path_s = (left + tk * t.tn * c.weight) * std::max(c.core_s_per_byte, t.shared);
  p.store_path_s = result * std::max(c.store_s_per_byte, t.shared);
  p.load_s = std::max(p.load_path_s, p.dram_load_s);
  p.store_s = std::max(p.store_path_s, p.dram_store_s);
  p.results_doubled = npu.scratch.accumulator == 0 || 2 * t.tm * t.tn * kSumBytes <= c.sums_room;
  p.fill_s = c.fill_s;
  add_times(p, npu.step_s, t.waves, per_tile);
  p.dram_bytes = t.reads + c.writes;
  return p;
}

/// Tries tiles of tm x tn with the largest step that fits and with a finer one.
void try_tile(const Context& c, double tm, double tn, NpuGemmPlan& best) {
  const Tiling t = tiling_of(c, tm, tn);
  const double most = largest_step(c, tm, tn, t.tiles <= c.cores);
  if (most == 0) return;
  const double uk = d(c.unit.k), steps = up(c.k, most);
  const double finer = std::min(most, up(c.k, steps == 1 ? 4.0 : 2.0 * steps));
  for (const double step : {most, up(finer, uk) * uk}) {
    const bool one = up(c.k, step) == 1;
    if (!one && 2 * (tm + tn) * step * c.element > c.room) continue;
    const NpuGemmPlan p = plan_of(c, t, step);
    if (best.tiles == 0 || p.time_s < best.time_s) best = p;
    if (step <= uk) break;
  }
}

/// Smallest edge of a tile that covers `length`, but at most `largest`: base 16 of a cube or 128, doubled.
double first_edge(double length, double base, double largest) {
  double edge = base;
  while (edge < length && edge < largest) edge *= 2;
  return edge;
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
  return cycles_of(unit, unit_edges(unit), d(m), d(n), d(k), std::max(matrix_rate(unit, dtype), 1e-9));
}

double dram_rate(const NpuParams& npu, double active) {
  const double all = npu.memory_bandwidth * npu.memory_efficiency;
  return npu.core_bandwidth > 0 ? std::min(all, active * npu.core_bandwidth) : all;
}

NpuGemmPlan plan_npu_gemm(const NpuParams& npu, const Gemm& g, DType dtype) {
  if (g.m <= 0 || g.n <= 0 || g.k <= 0 || g.batch <= 0) return {};
  const Context c = context_of(npu, g, dtype);
  if (npu.whole_operands) {
    const double rows = std::min(c.m, up(up(c.m, c.cores), d(c.unit.m)) * d(c.unit.m));
    const double held = (rows + c.n) * c.k * c.element + rows * c.n * kSumBytes;
    if (c.batch * up(c.m, rows) <= c.cores && 2 * held <= c.room) return plan_of(c, tiling_of(c, rows, c.n), c.k);
  }
  const bool cube = npu.matrix.kind == MatrixKind::cube;
  const double base_m = cube ? d(npu.matrix.rows) : 128, base_n = cube ? d(npu.matrix.columns) : 128;
  const double largest = d(cube ? kCubeEdge : kSystolicEdge);
  NpuGemmPlan best;
  // Halves beyond the third only where cores would stand idle.
  double edge_m = first_edge(c.m, base_m, largest), rows = 0;
  for (int i = 0; edge_m >= base_m && (i < kSizes || rows * up(c.n, base_n) * c.batch < c.cores); ++i, edge_m /= 2) {
    const double tm = std::min(up(edge_m, d(c.unit.m)) * d(c.unit.m), c.m);
    rows = up(c.m, tm);
    double edge_n = first_edge(c.n, base_n, largest), columns = 0;
    for (int j = 0; edge_n >= base_n && (j < kSizes || rows * columns * c.batch < c.cores); ++j, edge_n /= 2) {
      const double tn = std::min(up(edge_n, d(c.unit.n)) * d(c.unit.n), c.n);
      columns = up(c.n, tn);
      try_tile(c, tm, tn, best);
    }
  }
  if (best.tiles == 0)  // scratchpads for the unit's own block only
    best = plan_of(c, tiling_of(c, std::min(d(c.unit.m), c.m), std::min(d(c.unit.n), c.n)), std::min(d(c.unit.k), c.k));
  return best;
}

}  // namespace orrery::hw
