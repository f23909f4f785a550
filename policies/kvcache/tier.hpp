// Where the KV of a sequence waits while it is off the device, and what moving it costs: the seam for swapping.
#pragma once

#include <cstdint>
#include <optional>

namespace orrery::policies {

/// What was copied between a device and its tiers.
struct TierCounters {
  std::int64_t out_bytes = 0, in_bytes = 0;
  std::int64_t outs = 0, ins = 0;  ///< sequences
  std::int64_t copies = 0;
  std::int64_t demoted_bytes = 0;  ///< from one tier to the next
  std::int64_t dropped = 0;        ///< copies that nobody waited for, given up for want of room
  std::int64_t refused = 0;        ///< sequences that found no room, and are computed again
  std::int64_t reused_bytes = 0;   ///< that were not copied out, for the tier had them
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
  virtual TierCounters counters() const { return {}; }
};

}  // namespace orrery::policies
