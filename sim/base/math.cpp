#include "sim/base/math.hpp"

#include <cmath>
#include <limits>

namespace orrery::sim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// ln 2 in two parts: the high part has 21 trailing zero bits, so that a product with an exponent is exact.
constexpr double kLn2High = 6.93147180369123816490e-01;
constexpr double kLn2Low = 1.90821492927058770002e-10;
constexpr double kLog2E = 1.4426950408889634074;

/// sin on [-pi/4, pi/4], Taylor to x^17.
double sin_kernel(double x) {
  const double z = x * x;
  double term = x;
  double sum = x;
  for (int n = 1; n <= 8; ++n) {
    term *= -z / static_cast<double>((2 * n) * (2 * n + 1));
    sum += term;
  }
  return sum;
}

/// cos on [-pi/4, pi/4], Taylor to x^16.
double cos_kernel(double x) {
  const double z = x * x;
  double term = 1;
  double sum = 1;
  for (int n = 1; n <= 8; ++n) {
    term *= -z / static_cast<double>((2 * n - 1) * (2 * n));
    sum += term;
  }
  return sum;
}

/// sin(x + quadrant * pi/2), x reduced in three parts of pi/2.
double sin_quadrant(double x, int quadrant) {
  if (!(std::fabs(x) <= 1e6)) return kNaN;
  const double k = std::floor(x * 6.36619772367581382433e-01 + 0.5);
  const double r =
      ((x - k * 1.57079632673412561417e+00) - k * 6.07710050630396597660e-11) - k * 2.02226624879595063154e-21;
  switch ((static_cast<long long>(k) + quadrant) & 3) {
    case 0:
      return sin_kernel(r);
    case 1:
      return cos_kernel(r);
    case 2:
      return -sin_kernel(r);
    default:
      return -cos_kernel(r);
  }
}

}  // namespace

double det_exp(double x) {
  if (std::isnan(x)) return x;
  if (x > 709.782712893384) return kInfinity;
  if (x < -745.14) return 0;
  const double k = std::floor(x * kLog2E + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;  // |r| <= 0.347
  double sum = 1.0 + r / 14.0;
  for (int n = 13; n >= 1; --n) sum = 1.0 + sum * r / static_cast<double>(n);
  return std::ldexp(sum, static_cast<int>(k));
}

double det_log(double x) {
  if (std::isnan(x) || x < 0) return kNaN;
  if (x == 0) return -kInfinity;
  if (std::isinf(x)) return x;
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752440) {
    m *= 2;
    --exponent;
  }
  // log m = 2 atanh(f), f = (m-1)/(m+1), |f| <= 0.1716: f^24 < 1e-18.
  const double f = (m - 1) / (m + 1);
  const double z = f * f;
  double series = 0;
  for (int n = 23; n >= 3; n -= 2) series = (series + 1.0 / static_cast<double>(n)) * z;
  const double k = static_cast<double>(exponent);
  return k * kLn2High + (2 * f + (2 * f * series + k * kLn2Low));
}

double det_pow(double x, double y) {
  if (y == 0) return 1;
  if (x == 0) return y > 0 ? 0 : kInfinity;
  return det_exp(y * det_log(x));
}

double det_sin(double x) {
  return sin_quadrant(x, 0);
}
double det_cos(double x) {
  return sin_quadrant(x, 1);
}

}  // namespace orrery::sim
