// Grouped matrix products and fused MoE layers in the `tiled` model.
//
// Grouped product: group g computes C_g[rows_g, n] = A_g[rows_g, k] B_g[k, n], all groups in one launch. A tile of bm
// rows never spans two groups, so rows are padded group by group: tiles(bm) = sum over groups of ceil(rows_g / bm). For
// (bm, bn) among 16x32, 16x64, 16x128, 32x64, 32x128, 64x64, 64x128, 128x128, 128x256 (the block sizes that vLLM's
// fused MoE kernel is tuned over):
//   ctas    = tiles(bm) ceil(n / bn),  w = ctas / SMs,  waves = max(1, ceil(w) - wave_smoothing (ceil(w) - w))
//   compute = waves (2 bm bn k' / (peak / SMs * efficiency * rows share) + block_start),  k' = k up to a multiple of 64
//   operand = (bm + min(bn, n)) k e
//   memory  = (weights (1 - hot) + rows (n + k) e) / (bandwidth * memory_efficiency) + operand / cta_bandwidth
//   l2      = ctas operand / (l2_bandwidth * l2_delivery)
//   narrow  = ctas (bm + bn) k' / (unaligned_rate * SMs * clock)     where n or k is no multiple of 16, else 0
//   t       = |compute, memory, l2, narrow|_4, and the cheapest is taken.
// rows share: a matrix instruction takes 64 rows, so tiles of 32 and 16 rows use a half and a quarter of it, 64
// somewhat less than 128 (0.85). `narrow`: a kernel specialised by divisibility by 16 (Triton) cannot prove alignment
// for other sizes and loads element by element; weights in formats of their own are padded to whole blocks instead.
// `hot`: weights that repeated calls find in the L2, x^4 / (1 + x^4) with x = l2_reach * l2 / weights; 0 in a real
// layer, whose other weights have passed through the cache since.
//
// Fused MoE layer (vLLM's fused_experts): sort tokens by expert, grouped product up (and gate), activation, grouped
// product down, weighted sum of the top-k rows:
//   t = sort + up + activation + down + combine + [expert-parallel] (remote + rows of other ranks' experts, zeroed)
// Activation and combine run over all tokens * top_k rows, also those of other ranks. A gated activation is one row
// kernel (hw/tiled/stream.hpp); squared ReLU is three elementwise passes (ReLU, square, copy). Combine reaches
// combine_share of the memory's rate. Left out: routing itself, quantised experts, shared experts, communication
// between ranks.
#pragma once

#include <cstdint>
#include <span>

#include "hw/base/kernel.hpp"
#include "hw/gpu/gpu.hpp"
#include "hw/tiled/tiled.hpp"

namespace orrery::hw {

/// Whether a launch finds its weights in the L2, as calls repeated by a benchmark do.
enum class Weights : std::uint8_t { cold, hot };

/// Tile as the model chooses it.
struct GroupedPlan {
  std::int64_t tile_m = 0, tile_n = 0;
  TiledTime time;
};

/// The cheapest tiling; all zero for an empty product. Ties go to the first in the list of tiles.
GroupedPlan plan_grouped(const GpuParams& gpu, const GroupedGemm& shape, DType dtype, Weights weights = Weights::cold);
/// Its time without the launch.
TiledTime tiled_grouped(const GpuParams& gpu, const GroupedGemm& shape, DType dtype);

/// One rank's part of a mixture-of-experts layer.
struct MoeLayer {
  std::int64_t tokens = 0;  ///< of the batch, on every rank
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;  ///< of an expert, on this rank
  std::int64_t top_k = 0;
  bool gated = true;             ///< SiLU times gate; else squared ReLU
  bool expert_parallel = false;  ///< whether other ranks hold experts too
};

/// Time of the layer in s, launches included. `rows`: of each expert on this rank (hw/base/expert_rows.hpp).
double moe_layer_time(const GpuParams& gpu, const MoeLayer& layer, std::span<const std::int64_t> rows, DType dtype,
                      Weights weights = Weights::cold);

}  // namespace orrery::hw
