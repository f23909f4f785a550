// Numbers of twice the precision, as the unevaluated sum of two doubles (Dekker 1971), for the functions of
// sim/base/math.hpp: only exact IEEE operations, no fused multiply-add (it is slow where the processor lacks it).
//
// A `Wide` is normalised: |low| is at most half a unit in the last place of high. Products are good to some 2^-102.
// Nothing here is safe above 2^996 or below 2^-900: callers scale.
#pragma once

#include <bit>
#include <cstdint>

namespace orrery::sim {

struct Wide {
  double high = 0, low = 0;
};

/// a + b exactly, for |a| >= |b| or a = 0.
constexpr Wide fast_two_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}
/// a + b exactly.
constexpr Wide two_sum(double a, double b) {
  const double sum = a + b;
  const double part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}
/// a * b exactly: both factors are cut into halves of 26 bits, whose products are exact.
constexpr Wide two_product(double a, double b) {
  constexpr double kSplit = 0x1p27 + 1;
  const double ca = kSplit * a;
  const double cb = kSplit * b;
  const double a_high = ca - (ca - a);
  const double b_high = cb - (cb - b);
  const double a_low = a - a_high;
  const double b_low = b - b_high;
  const double product = a * b;
  return {product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low};
}

constexpr Wide operator+(Wide a, double b) {
  const Wide sum = two_sum(a.high, b);
  return fast_two_sum(sum.high, sum.low + a.low);
}
constexpr Wide operator+(Wide a, Wide b) {
  const Wide sum = two_sum(a.high, b.high);
  return fast_two_sum(sum.high, sum.low + (a.low + b.low));
}
constexpr Wide operator-(Wide a) {
  return {-a.high, -a.low};
}
constexpr Wide operator*(Wide a, double b) {
  const Wide product = two_product(a.high, b);
  return fast_two_sum(product.high, product.low + a.low * b);
}
constexpr Wide operator*(Wide a, Wide b) {
  const Wide product = two_product(a.high, b.high);
  return fast_two_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

/// 2^k for -1022 <= k <= 1023.
constexpr double power_of_two(int k) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(k + 1023) << 52);
}
/// x * 2^k with one rounding, for |x| in [2^-2, 2^2] and any |k| < 2000.
constexpr double scale(double x, int k) {
  if (k > 1000) return x * power_of_two(1000) * power_of_two(k > 2000 ? 1000 : k - 1000);
  if (k < -1000) return x * power_of_two(-960) * power_of_two(k < -1900 ? -940 : k + 960);
  return x * power_of_two(k);
}

/// x = mantissa * 2^exponent with mantissa in [sqrt(1/2), sqrt(2)), for finite x > 0.
struct Split {
  double mantissa;
  int exponent;
};
constexpr Split split_exponent(double x) {
  int exponent = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    exponent = -54;
  }
  const auto bits = std::bit_cast<std::uint64_t>(x);
  exponent += static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
  if (mantissa >= 0x1.6a09e667f3bcdp+0) {  // sqrt(2)
    mantissa *= 0.5;
    ++exponent;
  }
  return {mantissa, exponent};
}

/// Nearest integer, |x| < 2^51; halves go to the even one.
constexpr double nearest_integer(double x) {
  return (x + 0x1.8p52) - 0x1.8p52;
}

}  // namespace orrery::sim
