// What the files behind sim/base/math.hpp share: exponential and logarithm with some 66 bits.
#pragma once

#include <array>
#include <limits>

#include "sim/base/double_double.hpp"

namespace orrery::sim {

/// What functions give past their range, and outside their domain.
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// ln x for finite x > 0, relative error below 2^-66.
Wide log_wide(double x);
/// e^x rounded once, as 0.6 units in the last place; any x.high, infinities included, NaN not.
double exp_of_wide(Wide x);
/// c[0] + c[1] x + c[2] x^2 + … by Horner's rule.
template <std::size_t kCount>
double polynomial(const std::array<double, kCount>& c, double x) {
  double sum = c[kCount - 1];
  for (std::size_t i = kCount - 1; i-- > 0;) sum = c[i] + x * sum;
  return sum;
}

}  // namespace orrery::sim
