// What attention libraries do: tiles, splits of long contexts, grouped heads as rows; and the constants of `tiled`.
//
// A library is code that is known, so what it decides is a function here and not a constant to fit:
//   flash2  FlashAttention-2, its paged kernels, on parts before Hopper: tiles of 64 query rows; two thread blocks an
//           SM where shared memory allows; contexts split only for one new token a sequence with grouped heads.
//   flash3  FlashAttention-3, on Hopper and after: 64 to 192 rows taken from all query heads of a key head, one thread
//           block an SM that works through tiles; contexts split by a plan made for every batch.
//   flash3_sm80  its kernels for parts before Hopper: 128 rows; splits and packing are the caller's.
// Sources: Dao-AILab/flash-attention and vllm-project/flash-attention, csrc/flash_attn (flash_fwd_launch_template.h,
// flash_api.cpp) and hopper (tile_size.h, heuristics.h, flash_prepare_scheduler.cu). Left out: sinks, soft
// caps, dropout, 8-bit operands, clusters, and the generic kernel that libraries use for head dimensions above
// 256.
//
// Time in `tiled`. The library's tile of `rows` query rows takes `keys` keys at a time (below). Grouped heads share
// a tile of FlashAttention-3 and, for one new token a sequence, of FlashAttention-2. For a block of keys, clock f:
//   flops  = 2 rows keys (key_dim + value_dim)
//   shared = flops / (peak/SMs * efficiency) + rows keys / (softmax_per_cycle f)      SM time when others fill the gaps
//   alone  = flops / (peak/SMs) + block_cycles / f;  shared, where groups of warps take turns within a thread block
//   start  = (start_cycles + rows in use * row_cycles) / f
// A thread block of x blocks of keys takes latency(x) = start + x alone by itself, and of an SM that c thread blocks
// share busy(x) = max(start / c + x shared, latency(x) / c). Equal ones (one new token a sequence) run in waves:
//   wave of r = |max(latency(x), ceil(r/SMs) busy(x)), r/ctas * move|_4
// uneven ones (prompts; contexts of unequal length) are handed out as SMs fall free:
//   t = |compute, move|_4,  compute = |ctas busy(mean x) / SMs + tail (1 - SMs c / ctas) latency(longest),
//                                    latency(longest)|_4
// where a causal tile ends at its last query: mean keys of a query + half a tile (half a block more where tiles end
// inside one); + a further half tile past a sliding window, where it begins with its first query's window, and longest
// x is of the window's keys and a tile.
//   move = |even + cold, ctas x block bytes / (l2_bandwidth l2_delivery)|_4,  even = bytes / (bandwidth
//   memory_efficiency); 2 root(even cold) in place of the sum where even < cold
// The memory's rate rises evenly for twice `cold`: measured, its cause is not known. Beside
// it, where cycles are clocks and so follow the part: fixed + sequence_cycles * sequences; combine_cycles +
// combine_split_cycles * splits and the fp32 partials at L2 bandwidth where
// contexts are split; for FlashAttention-2 with grouped heads and one token a sequence, one copy of regroup_cycles of
// the outputs, and three more where there are several sequences and several key heads. A call repeated on the same
// operands (AttentionConditions::resident) finds all of them in the L2 up to resident_share of a partition (each holds
// a copy), none from twice that on, and a linear share between. AttentionPrefill counts a batch as so many sequences of
// the mean length, save for q_tiles.
//
// Prompts and decodes in one launch (FlashAttention-2): decodes are prompts of one token without splits and without
// packed heads, so `compute` sums both kinds of thread blocks. Heads run one after the other over all sequences, so
// keys and values of the decodes come from memory again for each of a key head's g query heads, unless these run at the
// same time or the contexts of a key head (c bytes) stay in the L2:
//   reads = 1 + (1 - kept) (min(g, max(1, g sequences / places of thread blocks)) - 1)
//   kept  = 2 - c l2_partitions / (l2 resident_share), between 0 and 1
//
// Gradients (FlashAttention-2 and 3, flash_bwd_launch_template.h): a thread block keeps 128 keys (64 above 128
// dimensions) and walks over the queries that see them, 64 at a time (128 up to 64 dimensions); five products, two
// passes over the scores, and gradients of queries added up in fp32 in the L2:
//   block = flops / (peak/SMs * efficiency) + 2 rows keys / (softmax_per_cycle f) + rows key_dim 4 gradient_add /
//           (l2_bandwidth / SMs)
//   longest = gradient_start_cycles / f + blocks of all queries * block
//   compute = | ctas (gradient_start_cycles / f + mean blocks * block) / SMs + gradient_tail (1 - SMs / ctas) longest,
//               longest |_4
// beside the memory, and the passes before and after: outputs times their gradients, sums set to zero and turned into
// 16 bits, and where query heads share keys, a sum over them.
//
// Cache write: bytes / (bandwidth cache_write), or 2 bytes / l2_bandwidth if resident, + tokens min(1, elements / 512)
// cache_token_cycles / (SMs f).
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/base/params.hpp"

namespace orrery::hw {

struct GpuParams;

/// Which library's decisions a part's attention follows.
enum class AttentionLibrary : std::uint8_t { flash2, flash3, flash3_sm80 };
constexpr auto enum_names(AttentionLibrary) {
  using enum AttentionLibrary;
  return sim::names<AttentionLibrary>({{"flash2", flash2}, {"flash3", flash3}, {"flash3_sm80", flash3_sm80}});
}

/// Constants of `tiled` for attention, and whose decisions it follows. Gradients' are those of FlashAttention-2 on an
/// H100 (hw/catalog/families/hopper.json) where a part says nothing.
struct AttentionConstants {
  AttentionLibrary library = AttentionLibrary::flash2;
  double efficiency = 0.85;
  double softmax_per_cycle = 18;
  double start_cycles = 3300;
  double row_cycles = 28;
  double block_cycles = 1500;
  double tail = 0.5;
  double memory_efficiency = 0.8;
  double l2_delivery = 1;
  double resident_share = 0.6;
  double cold_s = 0;
  double fixed_s = 4e-6;
  double combine_cycles = 4500;
  double combine_split_cycles = 300;
  double regroup_cycles = 0;
  double sequence_cycles = 0;
  double cache_write = 0.8;
  double cache_token_cycles = 900;
  double gradient_start_cycles = 26330;
  double gradient_add = 0.55;
  double gradient_tail = 1.39;
  static sim::FieldRows<AttentionConstants> fields();
};

/// How a call is made, where that is not the library's own choice.
struct AttentionConditions {
  bool resident = false;           ///< repeated on the same operands: what fits the L2 stays in it
  std::int64_t splits = 0;         ///< parts of every context; 0: as the library decides
  std::int64_t pack = 0;           ///< query heads whose rows share a tile; 0: as the library decides
  std::int64_t plan_heads = 0;     ///< heads that FlashAttention-3's plan was made for; 0: those of the call
  std::int64_t plan_kv_heads = 0;  ///< key heads of that plan
};

/// Tile of a thread block: query rows, keys taken at a time, and how many blocks share an SM.
struct AttentionTile {
  std::int64_t rows = 0, keys = 0, ctas_per_sm = 1;
  bool takes_turns = false;  ///< groups of warps compute while others load and take their softmax
};

/// The tile that the part's library takes. `rows_per_head`: query rows of one sequence and key head, grouped heads
/// counted; `key_dim`, `value_dim`: elements of a key and of a value.
AttentionTile attention_tile(const GpuParams& gpu, std::int64_t key_dim, std::int64_t value_dim,
                             std::int64_t rows_per_head);

/// Parts into which FlashAttention-2 cuts a context: the fewest that keep `slots` places of thread blocks at least
/// 0.85 times as busy as the best number would. `blocks` thread blocks without splitting, `key_blocks` blocks of keys.
std::int64_t flash2_splits(std::int64_t blocks, std::int64_t slots, std::int64_t key_blocks);

/// The same for FlashAttention-3, which plans with `tiles` (query tiles of a sequence and all key heads) and
/// `work` (blocks of keys over all tiles of the batch): an even share of the work for every SM, ten per cent more.
std::int64_t flash3_splits(std::int64_t tiles, double work, std::int64_t sms, std::int64_t key_blocks);

}  // namespace orrery::hw
