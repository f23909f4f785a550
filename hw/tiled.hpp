// The `tiled` model: what a GPU's thread blocks do with a kernel, in closed form.
//
// Matrix product C[m,n] = A[m,k] B[k,n]. For every tile (bm x bn) of a short list and every split s of k in 1, 2, 4, 8:
//   ctas    = ceil(m/bm) ceil(n/bn) s batch,  w = ctas / SMs
//   waves   = max(1, ceil(w) - wave_smoothing (ceil(w) - w))
//   compute = waves * 2 bm bn (k/s + fill_k) / (peak/SMs * efficiency)
//   operand = (min(bm, m) + bn) (k/s) * element                        (bytes that one thread block loads)
//   memory  = bytes / (bandwidth * memory_efficiency) + operand / cta_bandwidth
//   l2      = ctas * operand / (l2_bandwidth * l2_delivery)
//   t       = |compute, memory, l2|_4  (fourth-order norm: a smooth maximum)
//             + for s > 1: split + write and read of s fp32 partial results at L2 bandwidth
// The cheapest pair is taken: a library picks its kernel by such a guess too, though not always as well. DRAM bytes are
// the compulsory ones; of operands that do not fit the L2, the share that does not fit is read again by every wave.
//
// Attention, prefill. Tiles of `tile_rows` queries, one thread block a tile and head; keys = mean keys of a query +
// half a tile; work of a block = 4 tile_rows head_dim keys, and overhead keys of head dimension 128:
//   compute = |sum of work / (peak * efficiency), longest block / (peak/SMs * cta_efficiency)|_2
//   t       = |compute, DRAM + L2 time of queries, outputs, keys and values|_4
// Attention, decode. A block a sequence and key head, its rows the grouped query heads (padded to a tile), keys in
// blocks of 128. Contexts are split while blocks of SMs * ctas_per_sm stay free. Blocks run in waves, each wave the
// smooth maximum of its compute and its bytes at achieved bandwidth; splitting adds a pass that joins the parts. The
// batch counts as that many sequences of the mean context: Kernel holds sums only.
//
// Passes over memory: hw/tiled_stream.hpp. Grouped products: hw/tiled_grouped.hpp. Sparse products, transforms,
// convolutions and fused groups: hw/tiled_shapes.hpp.
//
// Every time excludes the launch. Left out: operands that stay in the L2 between kernels, clocks under load, library
// heuristics that choose badly, contexts of unequal length within a batch.
#pragma once

#include "hw/gpu.hpp"
#include "hw/kernel.hpp"

namespace orrery::hw {

/// Times in s without the launch; `compute_s` and `memory_s` tell what bounds, `fixed_s` is part of `time_s`.
struct TiledTime {
  double time_s = 0;
  double compute_s = 0;
  double memory_s = 0;
  double fixed_s = 0;
  double dram_bytes = 0;
};

/// Tile and split of a matrix product as the model chooses them.
struct GemmPlan {
  std::int64_t tile_m = 0, tile_n = 0, split = 1;
  TiledTime time;
};

/// The cheapest tiling of a product; all zero for an empty one. Ties go to the first in the list of tiles.
GemmPlan plan_gemm(const GpuParams& gpu, const Gemm& shape, DType dtype);
/// Time of prefill attention; zero for no queries.
TiledTime tiled_prefill(const GpuParams& gpu, const AttentionPrefill& shape, DType dtype);
/// Time of decode attention; zero for no sequences.
TiledTime tiled_decode(const GpuParams& gpu, const AttentionDecode& shape, DType dtype);

/// ceil(a / b) for a >= 0, b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
/// Norms of order 2 and 4 of non-negative numbers: smooth maxima, at most sqrt(2) and 2^(1/4) above the larger of two.
double norm2(double a, double b);
double norm4(double a, double b, double c = 0);

}  // namespace orrery::hw
