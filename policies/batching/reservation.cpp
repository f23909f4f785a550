#include "policies/batching/reservation.hpp"

#include <algorithm>
#include <bit>

#include "policies/batching/whole_prompts.hpp"

namespace orrery::policies {

std::int64_t reserved_tokens(const Sequence& seq, Reservation reservation, std::int64_t max_context) {
  std::int64_t tokens = max_context;
  if (reservation == Reservation::oracle) tokens = seq.prompt_tokens + seq.output_tokens;
  if (reservation == Reservation::pow2)
    tokens =
        seq.prompt_tokens + static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(seq.output_tokens)));
  return std::min(tokens, max_context);
}

void admit_reserved(const BatchView& view, std::int64_t slots, Reservation reservation, BatchDecision& out) {
  run_whole_prompts(view, out);
  std::int64_t free = view.kv.available_blocks();
  for (const SeqId id : view.waiting) {
    if (std::ssize(out.admit) >= slots) break;
    const Sequence& seq = view[id];
    const std::int64_t tokens = reserved_tokens(seq, reservation, view.limits.max_context);
    const std::int64_t blocks = view.kv.blocks_to_admit(seq, tokens);
    if (blocks > free) break;
    free -= blocks;
    out.admit.push_back({id, tokens});
    out.items.push_back({.seq = id, .new_tokens = tokens_to_compute(view, id)});
  }
  if (out.items.empty()) out.stable_iterations = kStable;
}

}  // namespace orrery::policies
