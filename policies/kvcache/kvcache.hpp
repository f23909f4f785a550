// Who holds which part of the KV cache.
//
// A cache hands out blocks of tokens to sequences and, where it is a prefix cache, keeps what sequences leave behind.
// Batching and routing policies see it through KvView and decide on that; the replica alone changes it.
//
// Steady decodes (docs/learn/glossary.md) all grow by a token a step, so the replica takes the blocks of all of them
// together (take). Only when a sequence leaves them does it tell the cache which of these blocks were its own (settle).
//
// Contract: counts are exact at every call. Every call is O(blocks or spans changed). Nothing depends on the order of
// equal requests other than through the counts and the texts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "policies/base/types.hpp"
#include "sim/base/registry.hpp"

namespace orrery::policies {

/// What a cache counted over a run; figures that do not apply stay 0.
struct KvCounters {
  std::int64_t evicted_blocks = 0;  ///< reusable prefixes given up for want of room
  std::int64_t moved_tokens = 0;    ///< copied inside the device to make a hole large enough
  std::int64_t shared_steps = 0;    ///< blocks, summed over decode steps of sequences with branches: as they were …
  std::int64_t unshared_steps = 0;  ///< … and as they would have been had no branch shared any
};

/// Read-only side: what batching and routing decide on.
class KvView {
 public:
  virtual ~KvView() = default;
  virtual std::int64_t total_blocks() const = 0;
  virtual std::int64_t block_bytes() const = 0;  ///< on one device
  /// Blocks that hold nothing.
  virtual std::int64_t free_blocks() const = 0;
  /// Blocks that hold nothing but reusable prefixes and are freed at once when blocks are needed.
  virtual std::int64_t evictable_blocks() const { return 0; }
  /// Blocks that hold `tokens` tokens of one sequence.
  virtual std::int64_t blocks_for(std::int64_t tokens) const = 0;
  /// Blocks `seq` holds, without those it took since it became a steady decode; shared ones count for each holder.
  virtual std::int64_t held_blocks(SeqId seq) const = 0;
  /// Of these, the blocks that its leaving makes available: those that nobody else holds.
  virtual std::int64_t releasable_blocks(SeqId seq) const { return held_blocks(seq); }
  /// Runs of neighbouring blocks that `seq` holds: as many copies does moving one layer of it take.
  virtual std::int64_t pieces(SeqId seq) const { return held_blocks(seq); }
  /// Tokens at the head of this waiting sequence's prompt that the cache, and a tier behind it, have now; 0 where
  /// nothing is kept.
  virtual std::int64_t match_prefix(const Sequence&) const { return 0; }
  /// The same for a text that need not belong to a sequence, of the cache alone: what routers ask.
  virtual std::int64_t match_text(const Text&) const { return 0; }
  /// Whether a cache keeps prefixes at all, so that asking is worth it.
  virtual bool keeps_prefixes() const { return false; }
  /// Tokens that attention need not read for one holder since it reads them for another, summed over holders; 0 until
  /// read_once().
  virtual std::int64_t tokens_read_for_others() const { return 0; }
  /// Blocks that `tokens` tokens in every branch of this sequence take; what branches share counts once.
  virtual std::int64_t blocks_of(const Sequence& seq, std::int64_t tokens) const {
    return seq.branches * blocks_for(tokens);
  }
  /// Blocks that admitting this waiting sequence with room for `tokens` takes out of available_blocks(): what it
  /// matches is neither allocated again nor evictable any longer.
  virtual std::int64_t blocks_to_admit(const Sequence& seq, std::int64_t tokens) const {
    return blocks_of(seq, tokens);
  }

  /// Tokens there is room for, in all and in what sequences hold (or asked for: rounding by the allocator is nobody's).
  /// Only asked where reports_split().
  virtual std::int64_t total_tokens() const { return 0; }
  virtual std::int64_t allocated_tokens() const { return 0; }
  /// Whether the replica is to sum how the memory divides into tokens, reservations, waste and holes.
  virtual bool reports_split() const { return false; }
  virtual KvCounters counters() const { return {}; }

  /// Blocks that can be had at once.
  std::int64_t available_blocks() const { return free_blocks() + evictable_blocks(); }
  /// Further blocks a sequence that is not a steady decode needs to hold `tokens` in every branch.
  std::int64_t blocks_to_grow(SeqId id, const Sequence& seq, std::int64_t tokens) const {
    const std::int64_t missing = blocks_of(seq, tokens) - held_blocks(id);
    return missing > 0 ? missing : 0;
  }
};

/// How much of what a sequence leaves behind a prefix cache should keep.
enum class Leave : std::uint8_t {
  drop,  ///< nothing new (preempted for want of memory; what others share stays)
  keep   ///< prompt and output (it ended)
};

class KvTier;

class KvCache : public KvView {
 public:
  /// Gives what it evicts to `tier`, and finds prefixes there too: match_prefix() and admit() count them from then on.
  /// False: it cannot (and nothing changes).
  virtual bool hand_on_to(KvTier& /*tier*/) { return false; }
  /// From now on counts what is read for others where a pass over a prefix serves `readers` holders of it. False: it
  /// cannot. Before the first sequence.
  virtual bool read_once(std::int64_t /*readers*/) { return false; }
  /// Of what admit() found for `seq`, the blocks that the tier has and that are to be loaded, in order.
  virtual std::span<const std::uint64_t> to_load(SeqId) const { return {}; }
  /// Holds what `seq` matches, so that those admitted before it in the same decision do not evict it; admit()
  /// follows in that decision.
  virtual void pin(SeqId, const Sequence&) {}
  /// Gives a waiting sequence blocks for at least `tokens` tokens, those of its matched prefix shared. Returns how many
  /// tokens of its prompt are there already (at most prefill_tokens - 1), or nothing (and no change) if there are too
  /// few.
  virtual std::optional<std::int64_t> admit(SeqId id, const Sequence& seq, std::int64_t tokens) {
    if (!reserve(id, seq, tokens)) return std::nullopt;
    return 0;
  }
  /// Makes it hold blocks for at least `tokens` tokens in every branch; false (and no change) if they are not to be
  /// had.
  virtual bool reserve(SeqId id, const Sequence& seq, std::int64_t tokens) = 0;
  /// The first `tokens` tokens of its prompt are computed: a prefix cache may show them to others.
  virtual void computed(SeqId, const Sequence&, std::int64_t /*tokens*/) {}
  /// What becomes known of the blocks of a sequence that is preempted for want of memory.
  virtual Leave left_by_preempted() const { return Leave::drop; }
  /// Gives back all blocks of a sequence that holds `tokens` tokens.
  virtual void release(SeqId id, const Sequence& seq, std::int64_t tokens, Leave leave) = 0;
  /// Tokens every branch can hold without another reserve() (counted before any take()).
  virtual std::int64_t capacity(SeqId id, const Sequence& seq) const = 0;
  /// Bytes of the blocks in use on one device, reusable prefixes not counted.
  virtual std::int64_t used_bytes() const = 0;

  /// Tokens a block holds when decodes grow block by block out of one pool; 0: they don't, and every decode reserves
  /// for itself at every step (the replica then steps instead of leaping).
  virtual std::int64_t growth_tokens() const { return 0; }
  /// Takes `blocks` blocks for the steady decodes together; they must be available.
  virtual void take(std::int64_t /*blocks*/) {}
  /// A sequence leaves the steady decodes with `tokens` tokens: the blocks taken for it since are now its own.
  virtual void settle(SeqId, const Sequence&, std::int64_t /*tokens*/) {}
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
