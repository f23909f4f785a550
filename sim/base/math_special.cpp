// Hyperbolic tangent, error function, logarithm of the Gamma function.
#include <cmath>

#include "sim/base/math.hpp"
#include "sim/base/math_kernels.hpp"
#include "sim/base/math_tables.hpp"

namespace orrery::sim {
namespace {

using namespace tables;

/// erf on [-0.5, 0.5]: Taylor series, its first term 2/sqrt(pi) taken as 1 + 0.128… to round once.
double erf_near_zero(double x) {
  const double z = x * x;
  return x + x * (kTwoOverRootPiLess1 + z * polynomial(kErf, z));
}

/// erfc for x in [0.5, 27]: e^(-x^2) with the square in two parts, times a polynomial for e^(x^2) erfc(x).
double erfc_tail(double x) {
  const double power = exp_of_wide(-two_product(x, x));
  if (x < 1.5) return power * polynomial(kErfcxA, 2 * (x - 1));
  if (x < 3) return power * polynomial(kErfcxB, (x - 2.25) / 0.75);
  if (x < 6) return power * polynomial(kErfcxC, (x - 4.5) / 1.5);
  constexpr double kLow = 1.0 / 729, kHigh = 1.0 / 36;
  const double t = (2 / (x * x) - (kHigh + kLow)) / (kHigh - kLow);
  return power * (polynomial(kErfcxD, t) / x);
}

/// ln Gamma on [0.5, 3]: its zeros at 1 and 2 stand outside the series, so that the error near them is relative.
double lgamma_between_zeros(double x) {
  const double zeros = (x - 1) * (x - 2);
  return zeros * (x < 1.5 ? polynomial(kLgammaA, 2 * (x - 1)) : polynomial(kLgammaB, (x - 2.25) / 0.75));
}

/// ln Gamma for x >= 8: (x - 1/2)(ln x - 1) + ln(2 pi)/2 - 1/2 + Stirling's series.
double lgamma_large(double x) {
  if (x > 1e300) return x * (det_log(x) - 1);
  const double inverse = 1 / x;
  const double series = polynomial(kStirling, inverse * inverse);
  const Wide main = (log_wide(x) + -1.0) * two_sum(x, -0.5) + kHalfLog2PiLessHalf;
  return main.high + (main.low + inverse * series);
}

double lgamma_positive(double x) {
  if (x >= 8) return lgamma_large(x);
  if (x < 0.5) return lgamma_between_zeros(x + 1) - det_log(x);
  double product = 1;
  while (x > 3) product *= x -= 1;
  return product == 1 ? lgamma_between_zeros(x) : lgamma_between_zeros(x) + det_log(product);
}

}  // namespace

double det_tanh(double x) {
  if (std::isnan(x) || std::fabs(x) < 0x1p-28) return x;
  const double size = std::fabs(x);
  double result = 1;
  if (size < 22) {
    const double power = det_expm1(2 * size);
    result = size < 1 ? power / (power + 2) : 1 - 2 / (power + 2);
  }
  return std::copysign(result, x);
}

double det_erf(double x) {
  if (std::isnan(x)) return x;
  const double size = std::fabs(x);
  if (size < 0.5) return erf_near_zero(x);
  return std::copysign(size > 6 ? 1.0 : 1 - erfc_tail(size), x);
}

double det_erfc(double x) {
  if (std::isnan(x)) return x;
  if (std::fabs(x) < 0.5) return 1 - erf_near_zero(x);
  if (x < 0) return x < -6 ? 2 : 2 - erfc_tail(-x);
  return x > 27 ? 0 : erfc_tail(x);
}

double det_lgamma(double x) {
  if (std::isnan(x)) return x;
  if (std::isinf(x)) return kInfinity;
  if (x > 0) return lgamma_positive(x);
  const double whole = std::floor(x);
  if (x == whole) return kInfinity;
  // Gamma(x) Gamma(1 - x) = pi / sin(pi x); tiny x would round 1 - x.
  if (x > -0x1p-60) return -det_log(-x);
  double part = x - whole;
  if (part > 0.5) part = -(x - (whole + 1));
  return kLogPi - (det_log(det_sin(kPi.high * part)) + lgamma_positive(1 - x));
}

}  // namespace orrery::sim
