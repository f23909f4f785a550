// What the decisions about serving share: the state of a sequence in a replica, and handles to it.
#pragma once

#include <compare>
#include <cstdint>

#include "sim/base/units.hpp"

namespace orrery::policies {

/// Handle of a sequence inside one replica; slots are used again after a sequence leaves.
struct SeqId {
  std::uint32_t index = 0;
  friend constexpr auto operator<=>(SeqId, SeqId) = default;
};

enum class Phase : std::uint8_t { waiting, prefill, decode };

/// A request on its way through a replica. Policies read it; only the replica writes it.
struct Sequence {
  std::int64_t order = 0;  ///< arrival number in the run: FCFS order, unique
  sim::Time arrived;
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;   ///< true length. An oracle: only a policy that says so may read it
  std::int64_t generated = 0;       ///< output tokens emitted so far
  std::int64_t prefill_tokens = 0;  ///< tokens to prefill before the next one is emitted: prompt, and after a
                                    ///< recompute preemption what had been generated too
  std::int64_t prefilled = 0;       ///< of these, how many went through all layers
  std::int64_t kv_tokens = 0;       ///< tokens whose keys and values are in the cache
  std::int64_t cached_tokens = 0;   ///< of the prompt, found in the cache at admission
  std::int32_t layers_done = 0;     ///< layers the chunk under way has passed (layer-wise prefill)
  std::int64_t chunk_tokens = 0;    ///< tokens of that chunk; 0 when none is part-way
  std::int32_t preemptions = 0;
  Phase phase = Phase::waiting;

  std::int64_t prefill_left() const { return prefill_tokens - prefilled; }
};

}  // namespace orrery::policies
