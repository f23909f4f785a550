// Who holds which part of the KV cache.
//
// A cache hands out blocks of tokens to sequences. Batching policies see it through KvView and decide on that; the
// replica alone changes it. Contract: `reserve` and `release` are O(blocks changed); counts are exact at every call;
// nothing depends on the order in which equal requests are made other than through the counts.
#pragma once

#include <cstdint>

#include "policies/types.hpp"
#include "sim/base/registry.hpp"

namespace orrery::policies {

/// Read-only side: what batching and routing decide on.
class KvView {
 public:
  virtual ~KvView() = default;
  virtual std::int64_t total_blocks() const = 0;
  virtual std::int64_t free_blocks() const = 0;
  /// Blocks that hold `tokens` tokens of one sequence.
  virtual std::int64_t blocks_for(std::int64_t tokens) const = 0;
  /// Blocks `seq` holds now.
  virtual std::int64_t held_blocks(SeqId seq) const = 0;
  /// Tokens at the head of this sequence's prompt that the cache already has (0 where it keeps nothing after a
  /// request).
  virtual std::int64_t match_prefix(const Sequence&) const { return 0; }
  /// Blocks that hold nothing but reusable prefixes and could be freed at once.
  virtual std::int64_t evictable_blocks() const { return 0; }

  /// Further blocks `seq` needs to hold `tokens` in all.
  std::int64_t blocks_to_grow(SeqId seq, std::int64_t tokens) const {
    const std::int64_t missing = blocks_for(tokens) - held_blocks(seq);
    return missing > 0 ? missing : 0;
  }
  /// Whether a new sequence of `tokens` fits and leaves `spare_blocks` free.
  bool can_allocate(std::int64_t tokens, std::int64_t spare_blocks = 0) const {
    return free_blocks() + evictable_blocks() - blocks_for(tokens) >= spare_blocks;
  }
};

class KvCache : public KvView {
 public:
  /// Makes `seq` hold blocks for at least `tokens` tokens; false (and no change) if they are not free.
  virtual bool reserve(SeqId seq, std::int64_t tokens) = 0;
  /// Gives back all blocks of `seq`.
  virtual void release(SeqId seq) = 0;
  /// Tokens `seq` can hold without another reserve().
  virtual std::int64_t capacity(SeqId seq) const = 0;
  /// Bytes of the blocks in use.
  virtual std::int64_t used_bytes() const = 0;
};

/// What a cache is made for.
struct KvGeometry {
  std::int64_t bytes_per_token = 0;  ///< on one device of the replica
  std::int64_t bytes_available = 0;  ///< on one device, after weights and margin
};

using KvCacheRegistry = sim::Registry<KvCache, const KvGeometry&>;

/// Adds every cache of this folder (register.cpp: one line a policy).
void register_kv_caches(KvCacheRegistry& registry);

}  // namespace orrery::policies
