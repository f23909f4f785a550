// Circular functions and their inverses.
#include <array>
#include <cmath>

#include "sim/base/math.hpp"
#include "sim/base/math_kernels.hpp"
#include "sim/base/math_tables.hpp"

namespace orrery::sim {
namespace {

using namespace tables;

/// +-1/n! for n = first, first + 2, …: the tails of the Taylor series of sin (from x^3, after a factor x) and cos (from
/// x^4, after a factor x^2). On [-pi/4, pi/4] what is left out is below 2^-66.
constexpr std::array<double, 9> alternating_factorials(int first) {
  std::array<double, 9> series{};
  double factorial = 1;
  for (int n = 2; n <= first; ++n) factorial *= n;
  double sign = first % 4 == 3 ? -1 : 1;
  for (int i = 0, n = first; i < 9; ++i, n += 2, sign = -sign) {
    series[static_cast<std::size_t>(i)] = sign / factorial;
    factorial *= (n + 1) * (n + 2);
  }
  return series;
}
constexpr auto kSinSeries = alternating_factorials(3);
constexpr auto kCosSeries = alternating_factorials(4);
/// (-1)^k / (2k+1) for k = 1 … 10: the series of atan(t)/t for |t| <= 0.1.
constexpr std::array<double, 10> kAtanSeries = [] {
  std::array<double, 10> series{};
  for (int k = 1; k <= 10; ++k) series[static_cast<std::size_t>(k - 1)] = (k % 2 != 0 ? -1.0 : 1.0) / (2 * k + 1);
  return series;
}();

/// x = quadrant pi/2 + rest, |rest| <= pi/4 (or a hair more).
struct Reduced {
  int quadrant;
  Wide rest;
};

/// |x| <= 2^20: three parts of pi/2, the first two of 33 bits, so that their products with the quadrant are exact.
Reduced reduce_small(double x) {
  const double k = nearest_integer(x * kTwoOverPi);
  const Wide rest = two_sum(x - k * kHalfPi1, -(k * kHalfPi2)) + -(k * kHalfPi3);
  return {static_cast<int>(static_cast<long long>(k) & 3), rest};
}

/// Bits position … position + 63 of 2/pi, counted from the point; zeros stand before it.
std::uint64_t bits_of_two_over_pi(int position) {
  const auto word = [](int index) { return index < 0 ? std::uint64_t{0} : kTwoOverPiBits[index]; };
  const int index = position >= 0 ? position / 64 : -1;
  const int shift = position - 64 * index;
  return shift == 0 ? word(index) : (word(index) << shift) | (word(index + 1) >> (64 - shift));
}

/// Any finite x >= 2^20 (Payne and Hanek 1983): x = m 2^e with an integer m; the bits of 2/pi that yield multiples of 4
/// are left out, and the next 192 decide quadrant and rest in integers.
Reduced reduce_large(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t m = (bits & 0x000fffffffffffffULL) | 0x0010000000000000ULL;
  const int exponent = static_cast<int>(bits >> 52) - 1075;
  using Product = unsigned __int128;
  // x 2/pi mod 4 = m * window * 2^-190 mod 4: the low 192 bits of the product, two of them before the point.
  const int start = exponent - 2;
  const Product low = static_cast<Product>(m) * bits_of_two_over_pi(start + 128);
  const Product middle = static_cast<Product>(m) * bits_of_two_over_pi(start + 64) + (low >> 64);
  std::uint64_t word0 = m * bits_of_two_over_pi(start) + static_cast<std::uint64_t>(middle >> 64);
  auto word1 = static_cast<std::uint64_t>(middle);
  auto word2 = static_cast<std::uint64_t>(low);
  int quadrant = static_cast<int>(word0 >> 62);
  word0 &= 0x3fffffffffffffffULL;
  const bool up = (word0 >> 61) != 0;  // the fraction is 1/2 or more: take the next quadrant, and what is missing to it
  if (up) {
    quadrant = (quadrant + 1) & 3;
    word0 = ~word0 & 0x3fffffffffffffffULL;
    word1 = ~word1;
    word2 = ~word2;  // two's complement but for one unit of 2^-190
  }
  Wide fraction;
  double unit = 0x1p-62;
  for (const std::uint64_t word : std::array{word0, word1, word2}) {
    fraction = fraction + static_cast<double>(word >> 32) * unit * 0x1p32;
    fraction = fraction + static_cast<double>(word & 0xffffffffU) * unit;
    unit *= 0x1p-64;
  }
  const Wide rest = fraction * kHalfPi;
  return {quadrant, up ? -rest : rest};
}

Reduced reduce(double x) {
  if (std::fabs(x) <= 0x1p20) return reduce_small(x);
  Reduced reduced = reduce_large(std::fabs(x));
  if (x < 0) reduced = {-reduced.quadrant & 3, -reduced.rest};
  return reduced;
}

/// sin on [-pi/4, pi/4]; the low part's share is its product with cos.
double sin_kernel(Wide x) {
  const double z = x.high * x.high;
  return x.high + (x.high * (z * polynomial(kSinSeries, z)) + x.low * (1 - 0.5 * z));
}

/// cos on [-pi/4, pi/4]; 1 - x^2/2 is kept in two parts.
double cos_kernel(Wide x) {
  const double z = x.high * x.high;
  const double half = 0.5 * z;
  const double sum = 1 - half;
  return sum + (((1 - sum) - half) + (z * z * polynomial(kCosSeries, z) - x.high * x.low));
}

double sin_of(const Reduced& x, int shift) {
  switch ((x.quadrant + shift) & 3) {
    case 0:
      return sin_kernel(x.rest);
    case 1:
      return cos_kernel(x.rest);
    case 2:
      return -sin_kernel(x.rest);
    default:
      return -cos_kernel(x.rest);
  }
}

/// atan(n / d) for 0 <= n <= d, d > 0, both far from overflow: the nearest i/8 is split off by the addition theorem.
Wide atan_of_ratio(double n, double d) {
  const double ratio = n / d;
  if (ratio < 0x1p-27) return {ratio, 0};
  // Up to 0.1 nothing is split off: 1/8 less something near it would magnify the error.
  const double i = ratio < 0.1 ? 0 : nearest_integer(8 * ratio);
  const double c = i * 0.125;
  const double t = i == 0 ? ratio : (n - c * d) / (d + c * n);
  const double z = t * t;
  const double rest = t * (z * polynomial(kAtanSeries, z));
  const Wide table = kAtan[static_cast<int>(i)];
  const Wide sum = two_sum(table.high, t);
  return fast_two_sum(sum.high, sum.low + (table.low + rest));
}

}  // namespace

double det_sin(double x) {
  if (std::isnan(x) || std::isinf(x)) return kNaN;
  if (std::fabs(x) < 0x1p-27) return x;
  return sin_of(reduce(x), 0);
}

double det_cos(double x) {
  if (std::isnan(x) || std::isinf(x)) return kNaN;
  return sin_of(reduce(x), 1);
}

double det_tan(double x) {
  if (std::isnan(x) || std::isinf(x)) return kNaN;
  if (std::fabs(x) < 0x1p-27) return x;
  const Reduced reduced = reduce(x);
  return sin_of(reduced, 0) / sin_of(reduced, 1);
}

double det_atan(double x) {
  if (std::isnan(x) || std::fabs(x) < 0x1p-27) return x;
  const double size = std::fabs(x);
  double angle = kHalfPi.high;
  if (size <= 1) {
    angle = atan_of_ratio(size, 1).high;
  } else if (size < 0x1p60) {
    angle = (kHalfPi + -atan_of_ratio(1, size)).high;
  }
  return std::copysign(angle, x);
}

double det_atan2(double y, double x) {
  if (std::isnan(x) || std::isnan(y)) return kNaN;
  const double up = std::fabs(y);
  const double along = std::fabs(x);
  const double larger = std::fmax(up, along);
  const double unit = larger > 0x1p500 ? 0x1p-600 : larger < 0x1p-500 ? 0x1p500 : 1;
  Wide angle;  // of (along, up), in the first quadrant
  if (up == 0) {
    angle = {0, 0};
  } else if (along == 0 || (std::isinf(up) && !std::isinf(along))) {
    angle = kHalfPi;
  } else if (std::isinf(along)) {
    angle = std::isinf(up) ? Wide{0.5 * kHalfPi.high, 0.5 * kHalfPi.low} : Wide{};
  } else if (up <= along && up / along < 0x1p-27) {
    angle = {up / along, 0};
  } else if (up <= along) {
    angle = atan_of_ratio(up * unit, along * unit);
  } else {
    angle = kHalfPi + -atan_of_ratio(along * unit, up * unit);
  }
  if (std::signbit(x)) angle = kPi + -angle;
  return std::copysign(angle.high, y);
}

}  // namespace orrery::sim
