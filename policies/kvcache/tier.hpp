// Where the KV of a sequence waits while it is off the device, and what moving it costs: the seam for swapping.
#pragma once

#include <cstdint>
#include <optional>

namespace orrery::policies {

class KvTier {
 public:
  virtual ~KvTier() = default;
  /// Copies `tokens` tokens in `blocks` blocks of request `key` off the device. Returns the time in ps that the next
  /// iteration waits for it, or nothing (and no change) if there is no room.
  virtual std::optional<std::int64_t> swap_out(std::int64_t key, std::int64_t tokens, std::int64_t blocks) = 0;
  /// Copies them back, into as many blocks; the time that the next iteration waits.
  virtual std::int64_t swap_in(std::int64_t key, std::int64_t tokens, std::int64_t blocks) = 0;
  /// The request is over: its copy, if there is one, may go.
  virtual void drop(std::int64_t key) = 0;
};

}  // namespace orrery::policies
