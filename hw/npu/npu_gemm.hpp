// Matrix products of an NPU: tiles through double-buffered scratchpads, in closed form.
//
// C[m,n] = A[m,k] B[k,n] is cut into output tiles (tm x tn) that cores take in turn, and every tile into S steps of tk
// along k. While a step is computed, the operands of the next one are loaded and results of the tile before are stored:
//   tiles   = ceil(m/tm) ceil(n/tn) batch,  active = min(tiles, cores),  waves = ceil(tiles/cores),  steps = waves S
//   compute = max(cycles of the matrix unit, L1 -> L0A bytes / rate, L1 -> L0B bytes / rate)        a step
//   load    = max((tm + tn) tk element / path of a core, DRAM bytes / shared DRAM rate)              a step
//   store   = max(tm tn element / path of a core, DRAM bytes / shared DRAM rate)                     a tile
// and the time is that of the engine with most to do, from the first load to the last store:
//   matrix unit  load + steps (compute + step) + store      (waves store where the accumulators hold one tile only)
//   load path    steps (load path + step) + compute + store
//   memory       steps (DRAM load + step) + (waves - 1) DRAM store + compute + store
//   store path   load + S (compute + step) + waves store path
//   t = latency + start of a transfer + crossing of the array + the longest of these
// `step` is loop and synchronisation; with one step alone nothing overlaps: load, compute, store. Cycles: hw/npu/
// systolic.hpp with folds that stand `preload`ed behind each other (a fold takes its stream, or `rows` while the next
// stationary operand shifts in, whichever is longer; the crossing of the array is paid once a kernel), shared among the
// units of a core by fold or by stream; a cube takes one rows x columns x depth block a cycle.
//
// Shared DRAM rate: min(memory_bandwidth * memory_efficiency, active * core_bandwidth). Cores of a wave share operands
// through the L2 where there is one (a wave covers a near-square block of tiles); operands that fit it are read once.
// Without an L2 every core reads its own. The plan is the cheapest of a small set of power-of-two tiles that fit the
// scratchpads (double-buffered when there is more than one step); ties go to the first. With `whole_operands` a product
// that fits is not cut, but for one block of rows a core.
// Weights of fewer bits cross memory and load path in their own format and are widened into the scratchpads.
// Left out: split k across cores, operands that stay on chip between kernels, uneven DMA arbitration.
#pragma once

#include "hw/npu/npu.hpp"

namespace orrery::hw {

/// Multiples in which a matrix unit takes each dimension.
struct UnitEdges {
  std::int64_t m = 1, n = 1, k = 1;
};
UnitEdges unit_edges(const MatrixUnit& unit);

/// A tiling and what it costs. Times in s, without the launch.
struct NpuGemmPlan {
  std::int64_t tile_m = 0, tile_n = 0, tile_k = 0;
  std::int64_t tiles = 0, active = 0, waves = 0, steps_per_tile = 0;
  double load_s = 0;                                                            ///< of one step
  double compute_s = 0;                                                         ///< of one step
  double store_s = 0;                                                           ///< of one tile
  double load_path_s = 0, dram_load_s = 0, store_path_s = 0, dram_store_s = 0;  ///< what load and store are made of
  double steady_s = 0;  ///< between steps of a long product, `step` not included
  double fill_s = 0;    ///< before the first step: latency, start of a transfer, crossing the array
  double time_s = 0;
  double dram_bytes = 0;
  bool results_doubled = true;  ///< whether results are stored behind the next tile
};

/// The cheapest plan; all zero for an empty product.
NpuGemmPlan plan_npu_gemm(const NpuParams& npu, const Gemm& shape, DType dtype);
/// Cycles of the matrix units of one core for one step.
double matrix_cycles(const MatrixUnit& unit, std::int64_t m, std::int64_t n, std::int64_t k, DType dtype);
/// Bytes/s that `active` cores together reach at the device memory.
double dram_rate(const NpuParams& npu, double active);

}  // namespace orrery::hw
