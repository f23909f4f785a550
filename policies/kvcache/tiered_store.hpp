// A list of memories behind a device, fastest first, that hold the KV of swapped sequences.
//
// A copy takes n x fixed + bytes / bandwidth, n being the number of separate runs of blocks times `copies_per_run` (two
// a layer: keys and values). New copies go to the first tier; what was used longest ago makes room by moving on to the
// next (in the background: counted, no time). Every tier is reached directly, at its own bandwidth. With `reuse` the
// copy outlives the way back as long as there is room, so that the next swap-out writes only what has been added
// (FastSwitch, arXiv 2411.18424). All bytes are of one device, as its link sees them.
#pragma once

#include <map>
#include <vector>

#include "policies/kvcache/tier.hpp"

namespace orrery::policies {

struct TierFacts {
  std::int64_t capacity_bytes = 0;
  double bandwidth = 1;      ///< B/s, each way
  std::int64_t copy_ps = 0;  ///< fixed cost of a copy
};

struct TieredStoreOptions {
  std::int64_t block_bytes = 1;
  std::int64_t copies_per_run = 2;
  bool overlap = false;
  bool reuse = false;
};

class TieredStore final : public KvTier {
 public:
  TieredStore(std::vector<TierFacts> tiers, const TieredStoreOptions& options);

  std::optional<std::int64_t> swap_out(std::int64_t key, std::int64_t tokens, std::int64_t blocks,
                                       std::int64_t pieces) override;
  /// Throws std::logic_error for what was never swapped out.
  std::int64_t swap_in(std::int64_t key, std::int64_t tokens, std::int64_t blocks, std::int64_t pieces) override;
  void drop(std::int64_t key) override;
  bool overlaps() const override { return options_.overlap; }
  TierCounters counters() const override { return counters_; }
  /// Bytes in tier `i`.
  std::int64_t used_bytes(std::size_t i) const { return used_[i]; }

 private:
  struct Entry {
    std::int64_t tokens = 0, blocks = 0;
    std::int64_t used = 0;  // when last
    std::size_t tier = 0;
    bool awaited = false;  // somebody is going to swap it in
  };
  std::int64_t bytes(const Entry& entry) const { return entry.blocks * options_.block_bytes; }
  std::int64_t copy(std::size_t tier, std::int64_t bytes, std::int64_t pieces);
  bool make_room(std::size_t tier, std::int64_t needed);

  std::vector<TierFacts> tiers_;
  TieredStoreOptions options_;
  std::map<std::int64_t, Entry> entries_;
  std::vector<std::map<std::int64_t, std::int64_t>> by_use_;  // of each tier: key by last use
  std::vector<std::int64_t> used_;
  std::int64_t now_ = 0;
  TierCounters counters_;
};

}  // namespace orrery::policies
