// Small functions that cost models share: whole quotients, smooth maxima, a smooth step.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace orrery::hw {

/// ceil(a / b) for a >= 0, b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// The least multiple that is not below x >= 0.
constexpr std::int64_t round_up(std::int64_t x, std::int64_t multiple) {
  return ceil_div(x, multiple) * multiple;
}

/// Norm of order 4 of non-negative numbers: a smooth maximum, at most 2^(1/2) above the largest of four.
inline double norm4(double a, double b, double c = 0, double d = 0) {
  const double top = std::max(std::max(a, b), std::max(c, d));
  if (top <= 0) return 0;
  const double scale = 1 / top;
  a *= scale;
  b *= scale;
  c *= scale;
  d *= scale;
  a *= a;
  b *= b;
  c *= c;
  d *= d;
  return top * std::sqrt(std::sqrt(a * a + b * b + c * c + d * d));
}

/// x^4 / (1 + x^4): near 0 below 1, a half at 1, near 1 above. Infinity is 1.
inline double saturating(double x) {
  x = std::min(x, 1e3);
  const double x4 = x * x * x * x;
  return x4 / (1 + x4);
}

}  // namespace orrery::hw
