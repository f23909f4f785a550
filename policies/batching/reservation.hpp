// How much cache a policy sets aside for a sequence at admission, when it cannot grow it later.
// Source: the Orca re-implementations of the PagedAttention paper (SOSP 2023, section 6.1).
#pragma once

#include <cstdint>
#include <string_view>

#include "policies/base/types.hpp"
#include "policies/batching/batching.hpp"
#include "sim/base/params.hpp"

namespace orrery::policies {

enum class Reservation : std::uint8_t {
  max,     ///< the context limit
  pow2,    ///< prompt and the true output rounded up to a power of two: an oracle within a factor of two
  oracle,  ///< prompt and true output
};
constexpr auto enum_names(Reservation) {
  using enum Reservation;
  return sim::names<Reservation>({{"max", max}, {"pow2", pow2}, {"oracle", oracle}});
}

/// Admits from the front of the queue, each with its reservation and its whole prompt as one item, until `slots` are
/// taken or the next reservation does not fit.
void admit_reserved(const BatchView& view, std::int64_t slots, Reservation reservation, BatchDecision& out);

/// Tokens to reserve for `seq`, never more than `max_context`.
std::int64_t reserved_tokens(const Sequence& seq, Reservation reservation, std::int64_t max_context);

}  // namespace orrery::policies
