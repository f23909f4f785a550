#include "policies/batching/reservation.hpp"

#include <algorithm>
#include <bit>

namespace orrery::policies {

std::int64_t reserved_tokens(const Sequence& seq, Reservation reservation, std::int64_t max_context) {
  std::int64_t tokens = max_context;
  if (reservation == Reservation::oracle) tokens = seq.prompt_tokens + seq.output_tokens;
  if (reservation == Reservation::pow2)
    tokens =
        seq.prompt_tokens + static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(seq.output_tokens)));
  return std::min(tokens, max_context);
}

}  // namespace orrery::policies
