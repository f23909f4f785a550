// Counts in formulas.
#pragma once

#include <cstdint>

namespace orrery::hw {

/// A count as a number that may be divided; one letter, because formulas of costs are full of it.
inline double d(std::int64_t value) {
  return static_cast<double>(value);
}

}  // namespace orrery::hw
