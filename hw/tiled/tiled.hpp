// The `tiled` model: what a GPU's thread blocks do with a kernel, in closed form.
//
// Matrix product C[m,n] = A[m,k] B[k,n] of activations A and weights B, e bytes an element. For every tile (bm x bn) of
// a short list and every split s of k (1, 2, 3, 4, 6, 8, 12, 16, 32); constants of the family in `quotes`, cycle = 1 /
// clock:
//   ctas    = ceil(m/bm) ceil(n/bn) s batch,   w = ctas / SMs,   r = ctas that fit an SM together (accumulators)
//   waves   = ceil(w) - `wave_smoothing` (ceil(w) - w) (1 - 1/(ceil(w) - 1)); whole ones up to the second
//   compute = waves 2 bm bn (k/s + `fill_k`) / (peak/SMs `efficiency`)
//   memory  = first touches / (bandwidth `memory_efficiency`)
//   l2      = ctas (min(bm, m) + min(bn, n)) (k/s) e / (L2 bandwidth `l2_delivery` [`multicast`])
//   latency = ceil(ctas / (SMs r)) (k/s) `k_cycles` cycle                (what a thread block cannot hide of its loads)
//   t       = |compute, memory, l2, latency|_4                                    (fourth-order norm: a smooth maximum)
//             + for s > 1: `split_cycles` cycle + `split_traffic` times write and read of s fp32 partial results at L2
//               bandwidth
//             + `exposed_write` m n e batch / (bandwidth `memory_efficiency`)     (tiles of a wave end, and write,
//             together)
// The cheapest pair is taken. A library picks its kernel by such a guess too, though not always as well. Where a
// library's rule is known it holds: with m n k < `unsplit_below`, k < `unsplit_k` and m > 1, s is 1. Then the power:
//   x       = (2 m n k batch / (peak t)) activity t / (t + rest) `peak_power` TDP / (TDP - idle - active)
//   time    = launch + `fixed_cycles` cycle + t (1 + x^8)^(1/16)
// A part that would draw more than its TDP clocks down. Power goes as f V^2, and V falls with f until its floor, so
// time grows with the root of what is asked (between the cube root and the first power). The eighth powers round the
// corner. The limit holds for means over milliseconds: `rest_s` of little power after each call count with it
// (GemmConditions).
//
// First touches depend on how the product is called (GemmConditions). A layer that runs once touches every operand
// once, cold. A benchmark that rotates over `weight_copies` copies of B has a working set of A + copies B + C: up to
// `l2_full` L2 it touches nothing, from `l2_none` L2 everything, between them its share. A is found also where A + B +
// C fits. DRAM bytes for the energy are first touches; of operands that do not fit the L2, every wave reads the share
// that does not fit again.
//
// Attention: hw/gpu/attention.hpp. Passes over memory: hw/tiled/stream.hpp. Grouped products: hw/tiled/grouped.hpp.
// Sparse products, transforms, convolutions and fused groups: hw/tiled/shapes.hpp.
//
// Every time excludes the launch. Left out: library heuristics that choose badly, temperature, operands that stay in
// the L2 between kernels other than calls repeated on the same operands.
#pragma once

#include "hw/base/arithmetic.hpp"
#include "hw/base/kernel.hpp"
#include "hw/gpu/gpu.hpp"

namespace orrery::hw {

/// Times in s without the launch; `compute_s` and `memory_s` tell what bounds, `fixed_s` is part of `time_s`.
struct TiledTime {
  double time_s = 0;
  double compute_s = 0;
  double memory_s = 0;
  double fixed_s = 0;
  double dram_bytes = 0;
};

/// How a product is called and by what library: conditions of a measurement, not of the device.
struct GemmConditions {
  std::int64_t weight_copies = 0;  ///< calls rotate over this many copies of the weights; 0: everything is cold
  double activity = 1;             ///< switching activity of the operands, 1 for random numbers: scales dynamic power
  bool multicast = true;           ///< whether the library loads operands once for a cluster, where the device can
  double rest_s = 0;  ///< time of little power between a call and the next, which the power limit averages in
};

/// Tile and split of a matrix product as the model chooses them.
struct GemmPlan {
  std::int64_t tile_m = 0, tile_n = 0, split = 1;
  TiledTime time;
};

/// The cheapest tiling of a product; all zero for an empty one. Ties go to the first in the list of tiles.
GemmPlan plan_gemm(const GpuParams& gpu, const Gemm& shape, DType dtype, const GemmConditions& conditions = {});
/// By how much a kernel at this share of the tensor peak is stretched so that the part keeps to its TDP; at least 1.
double power_stretch(const GpuParams& gpu, double utilisation, double activity);
/// Of tokens of which the last `past` (or of keys the first) have one end of their window inside: by how much a tile's
/// reach exceeds its mean token's at that end, mean over all tokens. A tile that is inside as a whole reaches half a
/// tile further; one that is cut reaches as far as without a window.
double window_surplus(double past, double tile, double tokens);
/// Time of the gradient of prefill attention, all kernels of the library's call; zero for no queries.
TiledTime tiled_attention_gradient(const GpuParams& gpu, const AttentionPrefill& shape, DType dtype);
/// Time of prefill attention, or of its gradient; zero for no queries.
TiledTime tiled_prefill(const GpuParams& gpu, const AttentionPrefill& shape, DType dtype,
                        const AttentionConditions& how = {});
/// Time of decode attention; zero for no sequences.
TiledTime tiled_decode(const GpuParams& gpu, const AttentionDecode& shape, DType dtype,
                       const AttentionConditions& how = {});
/// Time of one launch over prompts and decodes together, as an engine with chunked prefill makes it. FlashAttention-2
/// neither packs grouped heads nor splits contexts then: each decode takes a tile of its own for every query head and
/// reads its keys and values again for it (hw/gpu/attention.hpp). Other libraries: one after the other, an upper bound.
TiledTime tiled_mixed(const GpuParams& gpu, const AttentionPrefill& prompts, const AttentionDecode& decodes,
                      DType dtype, const AttentionConditions& how = {});
/// Time of the kernel that scatters the keys and values of new tokens into the pages of a cache: `elements` of each a
/// token, over all key heads. Its start is part of what launches cost.
TiledTime tiled_cache_write(const GpuParams& gpu, std::int64_t tokens, std::int64_t elements, DType dtype,
                            const AttentionConditions& how = {});

}  // namespace orrery::hw
