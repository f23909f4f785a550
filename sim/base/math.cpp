// Exponentials, logarithms, powers and roots.
#include "sim/base/math.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "sim/base/also_avx.hpp"
#include "sim/base/math_kernels.hpp"
#include "sim/base/math_tables.hpp"

namespace orrery::sim {
namespace {

using namespace tables;

constexpr double kOverflow = 0x1.62e42fefa39efp+9;  // ln of the largest double
constexpr double kUnderflow = -745.14;              // ln of half the smallest

/// 1/n! for n = 2 … 14: (e^r - 1 - r) / r^2 for |r| <= ln(2)/2, where r^15 / 15! is below 2^-62.
constexpr std::array<double, 13> kExpSeries = [] {
  std::array<double, 13> series{};
  double factorial = 1;
  for (int n = 2; n <= 14; ++n) series[static_cast<std::size_t>(n - 2)] = 1 / (factorial *= n);  // exact below 19!
  return series;
}();
/// 2/(2n+1) for n = 1 … 11: (ln(1+g) / s - 2) in s^2, s = g/(2+g), |s| <= 0.1716.
constexpr std::array<double, 11> kLogSeries = [] {
  std::array<double, 11> series{};
  for (int n = 1; n <= 11; ++n) series[static_cast<std::size_t>(n - 1)] = 2.0 / (2 * n + 1);
  return series;
}();

/// 1/n for n = 7, 9 … 29: what follows s^3/3 and s^5/5 in atanh(s).
constexpr std::array<double, 12> kLogTail = [] {
  std::array<double, 12> series{};
  for (int i = 0; i < 12; ++i) series[static_cast<std::size_t>(i)] = 1.0 / (2 * i + 7);
  return series;
}();

/// e^(high + low) = 2^k (1 + r + tail): r and k from the argument, |r| <= ln(2)/2.
struct ExpParts {
  int k;
  double r, tail;
};
ExpParts exp_parts(Wide x) {
  const double k = nearest_integer(x.high * kLog2E.high);
  const double first = x.high - k * kLn2High;  // exact: both are multiples of 2^-43 or finer, and close
  const Wide r = two_sum(first, x.low - k * kLn2Low);
  const double square = r.high * r.high;
  return {static_cast<int>(k), r.high, square * polynomial(kExpSeries, r.high) + r.low * (1 + r.high)};
}

/// x - ln(1 + x) for x in [sqrt(1/2) - 1, sqrt(2) - 1]: with s = x/(2+x), ln(1+x) = 2 atanh(s) = x - s (x - R(s^2)).
double log_correction(double x) {
  const double s = x / (2 + x);
  const double z = s * s;
  return s * (x - z * polynomial(kLogSeries, z));
}

/// k ln 2 + ln(1 + g) + extra, for g as in log_correction.
double log_sum(int exponent, double g, double extra) {
  if (exponent == 0) return g - (log_correction(g) - extra);
  const auto k = static_cast<double>(exponent);
  const Wide sum = two_sum(k * kLn2High, g);
  return sum.high + (sum.low + ((k * kLn2Low + extra) - log_correction(g)));
}

/// ln m with m in [sqrt(1/2), sqrt(2)): the series of atanh, its first terms in two parts.
Wide log_of_mantissa(double m) {
  const double g = m - 1;
  const Wide denominator = fast_two_sum(2, g);
  const double quotient = g / denominator.high;
  const Wide back = two_product(quotient, denominator.high);
  const double rest = ((g - back.high) - back.low) - quotient * denominator.low;
  const Wide s = fast_two_sum(quotient, rest / denominator.high);
  const Wide z = s * s;
  const Wide series = kThird + z * (kFifth + z * polynomial(kLogTail, z.high));
  const Wide twice{2 * s.high, 2 * s.low};
  return twice + twice * (z * series);
}

enum class Parity { fraction, even, odd };
/// Whether y is an even or an odd integer.
Parity parity(double y) {
  if (std::fabs(y) >= 0x1p53) return Parity::even;
  const auto whole = static_cast<long long>(y);
  if (static_cast<double>(whole) != y) return Parity::fraction;
  return (whole & 1) != 0 ? Parity::odd : Parity::even;
}

/// x^y where one of them is zero or infinite; neither is NaN, y is not 0 and x not 1.
double pow_at_the_edges(double x, double y) {
  const double size = std::fabs(x);
  if (std::isinf(y)) {
    if (size == 1) return 1;
    return (size > 1) == (y > 0) ? kInfinity : 0;
  }
  const double result = (size > 1) == (y > 0) ? kInfinity : 0;
  return std::signbit(x) && parity(y) == Parity::odd ? -result : result;
}

}  // namespace

double exp_of_wide(Wide x) {
  if (x.high > kOverflow + 1) return kInfinity;
  if (x.high < kUnderflow) return 0;
  const ExpParts e = exp_parts(x);
  const Wide sum = fast_two_sum(1, e.r);
  return scale(sum.high + (sum.low + e.tail), e.k);
}

Wide log_wide(double x) {
  const Split split = split_exponent(x);
  const Wide rest = log_of_mantissa(split.mantissa);
  const auto k = static_cast<double>(split.exponent);
  const Wide sum = two_sum(k * kLn2High, rest.high);
  return fast_two_sum(sum.high, sum.low + (k * kLn2Low + rest.low));
}

double det_exp(double x) {
  if (std::isnan(x)) return x;
  if (x > kOverflow) return kInfinity;
  return exp_of_wide({x, 0});
}

namespace {

/// The arithmetic of exp_of_wide without a branch, of values below 690 in size, four at a time: vectors of the
/// compiler's. `n`: a multiple of four.
ORRERY_ALSO_AVX void plain_exps(const double* x, double* out, std::size_t n) {
  constexpr double kMagic = 0x1.8p52;
  using Four = double __attribute__((vector_size(32)));
  using FourBits = std::uint64_t __attribute__((vector_size(32)));
  for (std::size_t i = 0; i < n; i += 4) {
    Four v;
    std::memcpy(&v, x + i, sizeof v);
    const Four shifted = v * kLog2E.high + kMagic;
    const Four k = shifted - kMagic;
    const Four first = v - k * kLn2High, second = 0 - k * kLn2Low;
    const Four r = first + second;  // two_sum
    const Four part = r - first;
    const Four low = (first - (r - part)) + (second - part);
    Four series = Four{} + kExpSeries.back();
    for (std::size_t c = kExpSeries.size() - 1; c-- > 0;) series = kExpSeries[c] + r * series;
    const Four tail = r * r * series + low * (1 + r);
    const Four sum = 1 + r;  // fast_two_sum
    const Four rest = r - (sum - 1);
    // The last bits of `shifted` are k: moved up, they are the exponent.
    const Four power = reinterpret_cast<Four>((reinterpret_cast<FourBits>(shifted) + 1023) << 52);
    const Four result = (sum + (rest + tail)) * power;
    std::memcpy(out + i, &result, sizeof result);
  }
}

}  // namespace

void det_exp_each(const double* x, double* out, std::size_t n) {
  constexpr double kPlain = 690;  // beyond it powers of two need more than one step
  bool plain = true;
  for (std::size_t i = 0; i < n; ++i) plain = plain && std::fabs(x[i]) < kPlain;
  if (!plain) {
    for (std::size_t i = 0; i < n; ++i) out[i] = det_exp(x[i]);
    return;
  }
  const std::size_t whole = n - n % 4;
  plain_exps(x, out, whole);
  for (std::size_t i = whole; i < n; ++i) out[i] = det_exp(x[i]);
}

double det_exp2(double x) {
  if (std::isnan(x)) return x;
  if (x >= 1024) return kInfinity;
  if (x <= -1076) return 0;
  const double k = nearest_integer(x);
  const Wide r = kLn2 * (x - k);  // the difference is exact
  const Wide sum = fast_two_sum(1, r.high);
  const double tail = r.high * r.high * polynomial(kExpSeries, r.high) + r.low * (1 + r.high);
  return scale(sum.high + (sum.low + tail), static_cast<int>(k));
}

double det_expm1(double x) {
  if (std::isnan(x) || std::fabs(x) < 0x1p-60) return x;
  if (x > 40) return det_exp(x);  // one is less than half a unit
  if (x < -40) return -1;
  const ExpParts e = exp_parts({x, 0});
  if (e.k == 0) return x + x * x * polynomial(kExpSeries, x);
  const double power = power_of_two(e.k);
  const Wide whole = two_sum(power, -1);
  const Wide sum = two_sum(whole.high, power * e.r);
  return sum.high + (sum.low + (whole.low + power * e.tail));
}

double det_log(double x) {
  if (std::isnan(x) || x == kInfinity) return x;
  if (x == 0) return -kInfinity;
  if (x < 0) return kNaN;
  const Split split = split_exponent(x);
  return log_sum(split.exponent, split.mantissa - 1, 0);
}

double det_log1p(double x) {
  if (std::isnan(x) || x == kInfinity || std::fabs(x) < 0x1p-60) return x;
  if (x == -1) return -kInfinity;
  if (x < -1) return kNaN;
  if (x >= -0.2928 && x <= 0.4142) return log_sum(0, x, 0);
  const Wide sum = two_sum(1, x);
  const Split split = split_exponent(sum.high);
  return log_sum(split.exponent, split.mantissa - 1, sum.low / sum.high);
}

double det_log2(double x) {
  if (std::isnan(x) || x == kInfinity) return x;
  if (x == 0) return -kInfinity;
  if (x < 0) return kNaN;
  const Split split = split_exponent(x);
  const Wide sum = log_of_mantissa(split.mantissa) * kLog2E + static_cast<double>(split.exponent);
  return sum.high + sum.low;
}

double det_log10(double x) {
  if (std::isnan(x) || x == kInfinity) return x;
  if (x == 0) return -kInfinity;
  if (x < 0) return kNaN;
  const Wide product = log_wide(x) * kLog10E;
  return product.high + product.low;
}

double det_pow(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (std::isnan(x) || std::isnan(y)) return kNaN;
  if (x == 0 || std::isinf(x) || std::isinf(y)) return pow_at_the_edges(x, y);
  double sign = 1;
  if (x < 0) {
    const Parity kind = parity(y);
    if (kind == Parity::fraction) return kNaN;
    if (kind == Parity::odd) sign = -1;
    if (x == -1) return sign;
  }
  // |ln x| is at least 2^-53, so that beyond 2^70 the result is infinite or 0 whatever y.
  const double exponent = std::fmin(std::fmax(y, -0x1p70), 0x1p70);
  return sign * exp_of_wide(log_wide(std::fabs(x)) * exponent);
}

double det_cbrt(double x) {
  if (std::isnan(x) || std::isinf(x) || x == 0) return x;
  Split split = split_exponent(std::fabs(x));
  // x = m 2^(3e), m in [0.7, 5.7): the exponent's remainder goes to the mantissa.
  const int thirds = (split.exponent + 1200) / 3 - 400;
  const double m = split.mantissa * power_of_two(split.exponent - 3 * thirds);
  double root = 0.75 + m * (0.28 - 0.0165 * m);  // within 6 %
  for (int i = 0; i < 2; ++i) {                  // Halley's step cubes the error: 2e-4, then 1e-11
    const double cube = root * root * root;
    root *= (cube + 2 * m) / (2 * cube + m);
  }
  // Newton's step with the exact cube.
  const Wide cube = two_product(root, root) * root;
  root += ((m - cube.high) - cube.low) / (3 * root * root);
  return std::copysign(scale(root, thirds), x);
}

}  // namespace orrery::sim
