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
                             std::int64_t rows_per_head, bool one_token) {
  const std::int64_t dim = std::max(key_dim, value_dim);
  if (gpu.attention.library == AttentionLibrary::flash3 && dim <= 256) {
    const bool small = one_token && rows_per_head <= 64 && dim <= 128;
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

}  // namespace orrery::hw
