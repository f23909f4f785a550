// What attention libraries do: tiles, splits of long contexts, grouped heads as rows; and the constants of `tiled`.
//
// A library is code that is known, so what it decides is a function here and not a constant to fit:
//   flash2  FlashAttention-2, its paged kernels, on parts before Hopper: tiles of 64 query rows; two thread blocks an
//           SM where shared memory allows; contexts split only for one new token a sequence with grouped heads.
//   flash3  FlashAttention-3, on Hopper and after: 64 to 192 rows taken from all query heads of a key head, one thread
//           block an SM that works through tiles; contexts split by a plan made for every batch.
// Sources: Dao-AILab/flash-attention and vllm-project/flash-attention, csrc/flash_attn (flash_fwd_launch_template.h,
// flash_api.cpp) and hopper (tile_size.h, heuristics.h, flash_prepare_scheduler.cu). Left out: sliding windows, sinks,
// soft caps, dropout, 8-bit operands, clusters.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>

#include "sim/base/params.hpp"

namespace orrery::hw {

struct GpuParams;

/// Which library's decisions a part's attention follows.
enum class AttentionLibrary : std::uint8_t { flash2, flash3 };

}  // namespace orrery::hw

namespace orrery::sim {
template <>
struct EnumNames<hw::AttentionLibrary> {
  static constexpr std::array<std::pair<std::string_view, hw::AttentionLibrary>, 2> names{
      {{"flash2", hw::AttentionLibrary::flash2}, {"flash3", hw::AttentionLibrary::flash3}}};
};
}  // namespace orrery::sim

namespace orrery::hw {

/// Constants of `tiled` for attention, and what its library does.
struct AttentionConstants {
  AttentionLibrary library = AttentionLibrary::flash2;
  double efficiency = 0.65;
  double softmax_per_clock = 60;
  double start_clocks = 3000;
  double row_clocks = 20;
  double block_clocks = 1500;
  double tail = 0.5;
  double memory_efficiency = 0.8;
  double l2_delivery = 1;
  double resident_share = 0.8;
  double cache_write = 0.7;
  double cache_token_s = 1e-9;
  double cache_thread_s = 0;
  double fixed_s = 6e-6;
  double combine_s = 3e-6;
  double combine_split_s = 5e-8;
  double regroup_s = 0;
  double sequence_s = 0;
  double idle_share = 0.75;
  std::int64_t planned_heads = 0;
  std::int64_t planned_kv_heads = 0;
};

/// Tile of a thread block: query rows, keys taken at a time, and how many blocks share an SM.
struct AttentionTile {
  std::int64_t rows = 0, keys = 0, ctas_per_sm = 1;
};

/// The tile that the part's library takes. `rows_per_head`: query rows of one sequence and key head, grouped heads
/// counted; `key_dim`, `value_dim`: elements of a key and of a value.
AttentionTile attention_tile(const GpuParams& gpu, std::int64_t key_dim, std::int64_t value_dim,
                             std::int64_t rows_per_head, bool one_token);

/// Parts into which FlashAttention-2 cuts a context: the fewest that keep `slots` places of thread blocks at least
/// 0.85 times as busy as the best number would. `blocks` thread blocks without splitting, `key_blocks` blocks of keys.
std::int64_t flash2_splits(std::int64_t blocks, std::int64_t slots, std::int64_t key_blocks);

/// The same for FlashAttention-3, which plans with `tiles` (query tiles of a sequence and all key heads) and
/// `work` (blocks of keys over all tiles of the batch): an even share of the work for every SM, ten per cent more.
std::int64_t flash3_splits(std::int64_t tiles, double work, std::int64_t sms, std::int64_t key_blocks);

}  // namespace orrery::hw
