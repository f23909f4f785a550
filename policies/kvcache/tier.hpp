// Where KV waits while it is off the device, and what moving it costs: of swapped sequences, of conversations between
// two turns, and blocks that a prefix cache gave up.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policies/base/types.hpp"

namespace orrery::policies {

using Picoseconds = __int128;  // since the start of a run, which may be longer than 64 bits of them

/// What was copied between a device and its tiers.
struct TierCounters {
  std::int64_t out_bytes = 0, in_bytes = 0;
  std::int64_t outs = 0, ins = 0;  ///< sequences
  std::int64_t copies = 0;
  std::int64_t demoted_bytes = 0;        ///< from one tier to the next
  std::int64_t dropped = 0;              ///< copies that nobody waited for, given up for want of room
  std::int64_t refused = 0;              ///< sequences that found no room, and are computed again
  std::int64_t reused_bytes = 0;         ///< that were not copied out, for the tier had them
  std::int64_t turns = 0;                ///< conversations that went on from a copy …
  std::int64_t turn_tokens = 0;          ///< … and what they did not prefill for it
  std::int64_t kept_blocks = 0;          ///< of prefixes, that came from a cache
  std::int64_t loaded_blocks = 0;        ///< of prefixes, that went back to one
  std::vector<std::int64_t> hit_tokens;  ///< of these, tokens of first admissions, by tier
};

class KvTier {
 public:
  virtual ~KvTier() = default;
  /// Copies `tokens` tokens of request `key` off the device, in `blocks` blocks that lie in `pieces` runs. Returns the
  /// time in ps that the copies take (with overlaps()), or that the next iteration waits for them; nothing (and no
  /// copy) if there is no room.
  virtual std::optional<std::int64_t> swap_out(std::int64_t key, std::int64_t tokens, std::int64_t blocks,
                                               std::int64_t pieces) = 0;
  /// Copies them back, into as many blocks; the time likewise.
  virtual std::int64_t swap_in(std::int64_t key, std::int64_t tokens, std::int64_t blocks, std::int64_t pieces) = 0;
  /// The request is over: its copy, if there is one, may go.
  virtual void drop(std::int64_t key) = 0;
  /// Whether the replica runs the copies beside its iterations: a sequence then goes on when its copy is through, and
  /// blocks are written to when they have been read.
  virtual bool overlaps() const { return false; }

  // Conversations between two turns.
  virtual bool keeps_turns() const { return false; }
  /// Request `key`, a turn of `session` that says `text`, ends with `tokens` tokens of KV: copies what is not here yet
  /// and keeps it for the next turn, as long as there is room. The time as of swap_out().
  virtual std::optional<std::int64_t> keep_turn(std::int64_t /*key*/, std::int64_t /*session*/, const Text&,
                                                std::int64_t /*tokens*/, std::int64_t /*blocks*/,
                                                std::int64_t /*pieces*/) {
    return std::nullopt;
  }
  /// Request `key` is the next turn: what is here of the beginning of its text becomes its swapped copy, `most` tokens
  /// at most. Returns how many tokens that are.
  virtual std::int64_t claim_turn(std::int64_t /*key*/, std::int64_t /*session*/, const Text&, std::int64_t /*most*/) {
    return 0;
  }

  // Blocks of text that a prefix cache gave up, known by their hashes.
  virtual bool takes_prefixes() const { return false; }
  /// What follows happens at this time.
  virtual void at(Picoseconds) {}
  /// A cache gives this block up. It is copied beside iterations, and can be loaded when that is through.
  virtual void keep_block(std::uint64_t /*hash*/) {}
  virtual bool has_block(std::uint64_t /*hash*/) const { return false; }
  /// It stays until load_blocks().
  virtual void pin_block(std::uint64_t /*hash*/) {}
  /// Copies pinned blocks of `block_tokens` tokens to the device, for a request that is admitted for the first time or
  /// not; the time as of swap_in(). The copies stay.
  virtual std::int64_t load_blocks(std::span<const std::uint64_t>, std::int64_t /*block_tokens*/, bool /*first*/) {
    return 0;
  }
  virtual TierCounters counters() const { return {}; }
};

}  // namespace orrery::policies
