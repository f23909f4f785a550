// Speculation: how many proposed tokens a verification step keeps.
//
// A batching policy proposes (Item::draft_tokens); the replica charges the verification of all of them and asks here
// how many survive. Without an acceptance model every draft is rejected, which is the honest answer for a policy that
// proposes tokens nobody modelled.
#pragma once

#include <cstdint>
#include <span>

#include "policies/base/types.hpp"

namespace orrery::policies {

class Acceptance {
 public:
  virtual ~Acceptance() = default;
  /// Of `drafted` proposed tokens for `seq`, how many are kept: 0 … drafted. Called once an item, in batch order.
  virtual std::int64_t accepted(const Sequence& seq, std::int64_t drafted) = 0;
  /// Once all of a batch are known, in batch order: may keep fewer of them.
  virtual void level(std::span<std::int64_t> /*kept*/) {}
};

}  // namespace orrery::policies
