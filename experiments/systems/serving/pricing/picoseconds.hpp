// Seconds that a model says, as the whole picoseconds that engines count.
#pragma once

#include <cmath>
#include <cstdint>

namespace orrery::experiments {

/// Whole picoseconds, rounded up. `seconds` below 9.2e6, more than a hundred days: 64 bits hold no more.
inline std::int64_t picoseconds(double seconds) {
  return static_cast<std::int64_t>(std::ceil(seconds * 1e12));
}

}  // namespace orrery::experiments
