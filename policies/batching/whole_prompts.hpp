// Prompts under policies that run them in one piece: usually with the admission, but a prompt that waited for KV from a
// tier (docs/explain/kv-cache.md) goes on some iterations later.
#pragma once

#include "policies/batching/batching.hpp"

namespace orrery::policies {

/// Gives every admitted prompt all that is left of it; its blocks were set aside at admission. False if there is none.
inline bool run_whole_prompts(const BatchView& view, BatchDecision& out) {
  for (const SeqId id : view.prefilling) out.items.push_back({.seq = id, .new_tokens = view[id].prefill_left()});
  return !view.prefilling.empty();
}

}  // namespace orrery::policies
