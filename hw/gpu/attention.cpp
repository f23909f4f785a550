#include "hw/gpu/attention.hpp"

#include <algorithm>
#include <cmath>

#include "hw/gpu/gpu.hpp"

namespace orrery::hw {
namespace {

constexpr std::int64_t kMaxSplits = 128;
constexpr double kNearlyFull = 0.8;   // share of the places of thread blocks beyond which nothing is split
constexpr double kGoodEnough = 0.85;  // share of the best number of splits that a smaller one has to reach
constexpr double kMargin = 1.1;       // work planned for an SM, above its even share
constexpr std::int64_t kElementBytes = 2;
constexpr std::int64_t kReservedL1 = 28 << 10;  // of an SM's L1, kept from shared memory on every part of the catalog

/// The fewest splits whose share of busy places is at least `good` of the best there is. n = blocks s thread blocks run
/// in w = ceil(n / slots) waves, so the share is n / (w slots); shares are compared crosswise, which needs no division.
std::int64_t fewest_busy_splits(std::int64_t blocks, std::int64_t slots, std::int64_t most, double good) {
  std::int64_t best_n = 0, best_w = 1;
  for (std::int64_t s = 1, w = 1; s <= most; ++s) {
    const std::int64_t n = blocks * s;
    while (w * slots < n) ++w;
    if (n * best_w > best_n * w) best_n = n, best_w = w;
  }
  const double wanted = good * static_cast<double>(best_n) / static_cast<double>(best_w);
  for (std::int64_t s = 1, w = 1; s <= most; ++s) {
    const std::int64_t n = blocks * s;
    while (w * slots < n) ++w;
    if (static_cast<double>(n) >= wanted * static_cast<double>(w)) return s;
  }
  return 1;
}

}  // namespace

AttentionTile attention_tile(const GpuParams& gpu, std::int64_t key_dim, std::int64_t value_dim,
                             std::int64_t rows_per_head) {
  const std::int64_t dim = std::max(key_dim, value_dim);
  if (gpu.attention.library == AttentionLibrary::flash3 && dim <= 256) {
    const bool small = rows_per_head <= 64 && dim <= 128;  // one group of warps holds them
    return {small ? 64 : dim <= 96 ? 192 : 128, dim <= 128 ? 128 : dim <= 192 ? 96 : 80, 1, !small};
  }
  AttentionTile tile;
  if (gpu.attention.library == AttentionLibrary::flash3_sm80 && dim <= 256)
    tile = {128, dim <= 64 ? 128 : dim <= 192 ? 64 : 96};
  else
    tile = {64, dim <= 64 ? 256 : dim <= 128 ? 128 : 64};
  const std::int64_t shared = (tile.rows * key_dim + tile.keys * (key_dim + value_dim)) * kElementBytes;
  tile.ctas_per_sm = std::clamp<std::int64_t>((gpu.l1_bytes - kReservedL1) / std::max<std::int64_t>(1, shared), 1, 2);
  return tile;
}

std::int64_t flash2_splits(std::int64_t blocks, std::int64_t slots, std::int64_t key_blocks) {
  if (static_cast<double>(blocks) >= kNearlyFull * static_cast<double>(slots)) return 1;
  const std::int64_t most = std::min({kMaxSplits, slots, key_blocks});
  return fewest_busy_splits(blocks, slots, most, kGoodEnough);
}

std::int64_t flash3_splits(std::int64_t tiles, double work, std::int64_t sms, std::int64_t key_blocks) {
  if (static_cast<double>(tiles) >= kNearlyFull * static_cast<double>(sms)) return 1;
  const std::int64_t most = std::min({kMaxSplits, sms, key_blocks});
  const std::int64_t room = fewest_busy_splits(tiles, sms, most, kGoodEnough);
  const double share = std::max(1.0, std::ceil(kMargin * work / static_cast<double>(sms)));
  const double wanted = std::ceil(static_cast<double>(key_blocks) / share);
  return std::max<std::int64_t>(1, std::min(room, static_cast<std::int64_t>(wanted)));
}

sim::FieldRows<AttentionConstants> AttentionConstants::fields() {
  using sim::Unit;
  using C = AttentionConstants;
  static const sim::FieldTable table{
      sim::field("library", &C::library,
                 "Attention library whose tiles, splits and packing of grouped heads are modelled."),
      sim::field("efficiency", &C::efficiency, Unit::ratio, sim::between(0.01, 1),
                 "Share of the tensor peak reached in the steady state, apart from the softmax."),
      sim::field("softmax_per_cycle", &C::softmax_per_cycle, Unit::none, sim::positive(),
                 "Softmax scores that an SM computes per clock, whose time nothing hides."),
      sim::field("start_cycles", &C::start_cycles, Unit::none, sim::at_least(0),
                 "Clocks that a thread block takes besides its keys: start, first loads and last stores."),
      sim::field("row_cycles", &C::row_cycles, Unit::none, sim::at_least(0),
                 "Further clocks per query row of a thread block: loads, normalisation and stores."),
      sim::field("block_cycles", &C::block_cycles, Unit::none, sim::at_least(0),
                 "Clocks that a lone group of warps waits in a block of keys: for loads, barriers and softmax."),
      sim::field("tail", &C::tail, Unit::ratio, sim::between(0, 2),
                 "How long the end of an uneven launch waits, in durations of its longest thread block."),
      sim::field("memory_efficiency", &C::memory_efficiency, Unit::ratio, sim::between(0.01, 1),
                 "Share of the peak memory bandwidth at which queries, keys, values and outputs move."),
      sim::field("l2_delivery", &C::l2_delivery, Unit::ratio, sim::between(0.01, 8),
                 "Bytes of keys and values delivered to tiles per byte of L2 bandwidth."),
      sim::field("resident_share", &C::resident_share, Unit::ratio, sim::between(0.01, 1.5),
                 "Share of an L2 partition up to which the operands of a repeated call stay in the L2."),
      sim::field("fixed", &C::fixed_s, Unit::seconds, sim::at_least(0),
                 "Fixed time for start and tail, besides the launch."),
      sim::field("combine_cycles", &C::combine_cycles, Unit::none, sim::at_least(0),
                 "Clocks of the second pass, which joins the splits of a context."),
      sim::field("combine_split_cycles", &C::combine_split_cycles, Unit::none, sim::at_least(0),
                 "Clocks that each split adds to the pass that joins them."),
      sim::field("regroup_cycles", &C::regroup_cycles, Unit::none, sim::at_least(0),
                 "Clocks of a copy that turns grouped heads into rows or back."),
      sim::field("sequence_cycles", &C::sequence_cycles, Unit::none, sim::at_least(0),
                 "Clocks to schedule each sequence inside the kernel, for up to 992 sequences."),
      sim::field("cold", &C::cold_s, Unit::seconds, sim::at_least(0),
                 "Half of the time in which the memory bandwidth ramps up: what a longer kernel loses by the ramp."),
      sim::field(
          "cache_write", &C::cache_write, Unit::ratio, sim::between(0.01, 1),
          "Share of the peak memory bandwidth that the kernel reaches which scatters new keys and values into pages."),
      sim::field("cache_token_cycles", &C::cache_token_cycles, Unit::none, sim::at_least(0),
                 "Clocks of an SM that a token of at least 512 elements adds to the cache-write kernel; smaller tokens "
                 "add proportionally less."),
      sim::field("gradient_start_cycles", &C::gradient_start_cycles, Unit::none, sim::at_least(0),
                 "Clocks that a thread block of the gradient takes besides its queries."),
      sim::field("gradient_add", &C::gradient_add, Unit::none, sim::at_least(0),
                 "Bytes of L2 bandwidth taken per byte that is added to the sum of a query's gradient."),
      sim::field("gradient_tail", &C::gradient_tail, Unit::ratio, sim::between(0, 4),
                 "How long the end of a gradient waits, in durations of its longest thread block."),
  };
  return table;
}

}  // namespace orrery::hw
