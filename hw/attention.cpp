#include "hw/attention.hpp"

#include <algorithm>
#include <cmath>

#include "hw/gpu.hpp"

namespace orrery::hw {
namespace {

constexpr std::int64_t kMaxSplits = 128;
constexpr std::int64_t kElementBytes = 2;
constexpr std::int64_t kReservedL1 = 28 << 10;  // of an SM's L1, kept from shared memory on every part of the catalog

/// The fewest splits whose share of busy places is at least `good` of the best there is.
std::int64_t fewest_busy_splits(double blocks, double slots, std::int64_t most, double good) {
  double best = 0;
  for (std::int64_t s = 1; s <= most; ++s) {
    const double waves = blocks * static_cast<double>(s) / slots;
    best = std::max(best, waves / std::ceil(waves));
  }
  for (std::int64_t s = 1; s <= most; ++s) {
    const double waves = blocks * static_cast<double>(s) / slots;
    if (waves >= good * best * std::ceil(waves)) return s;
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
  if (static_cast<double>(blocks) >= 0.8 * static_cast<double>(slots)) return 1;
  const std::int64_t most = std::min({kMaxSplits, slots, key_blocks});
  return fewest_busy_splits(static_cast<double>(blocks), static_cast<double>(slots), most, 0.85);
}

std::int64_t flash3_splits(std::int64_t tiles, double work, std::int64_t sms, std::int64_t key_blocks) {
  if (static_cast<double>(tiles) >= 0.8 * static_cast<double>(sms) || key_blocks <= 4) return 1;
  const std::int64_t most = std::min({kMaxSplits, sms, key_blocks});
  const std::int64_t room = fewest_busy_splits(static_cast<double>(tiles), static_cast<double>(sms), most, 0.85);
  const double share = std::max(1.0, std::ceil(1.1 * work / static_cast<double>(sms)));
  const double wanted = std::ceil(static_cast<double>(key_blocks) / share);
  return std::max<std::int64_t>(1, std::min(room, static_cast<std::int64_t>(wanted)));
}

}  // namespace orrery::hw
