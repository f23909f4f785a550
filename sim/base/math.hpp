// Elementary functions that give the same bits on every processor.
//
// The C library's transcendental functions differ between versions and processors (its exp and sin choose their code by
// the presence of FMA), so a result that went through them would not be reproducible. These use only IEEE-exact
// operations (+, -, *, /, sqrt, conversion, bit patterns) in a fixed order, rounding to nearest; the build forbids
// contraction to fused multiply-add. Constants are derived by sim/base/derive_math_tables.py.
//
// Errors in units in the last place (ulp) are the largest seen against 64-bit mantissas in tests/sim/test_math.cpp,
// rounded up; the tests hold them. Special cases follow IEEE 754 and C's annex F: NaN in gives NaN out, zeros keep
// their sign where the function is odd, subnormal results are rounded once more.
#pragma once

#include <cstddef>

namespace orrery::sim {

/// e^x; 0.8 ulp. Overflows to infinity above 709.78, underflows to 0 below -745.13.
double det_exp(double x);
/// The same for each of n values, the same bits and several times as fast. `x` and `out` may not overlap.
void det_exp_each(const double* x, double* out, std::size_t n);
/// 2^x; 0.8 ulp, exact for integers. Infinity from 1024 on, 0 below -1075.
double det_exp2(double x);
/// e^x - 1 without cancellation near 0; 1 ulp.
double det_expm1(double x);
/// Natural logarithm; 0.9 ulp. -infinity at 0, NaN below.
double det_log(double x);
/// Logarithms of base 2 and 10; 0.6 ulp, exact where the result is an integer.
double det_log2(double x);
double det_log10(double x);
/// ln(1 + x) without cancellation near 0; 1 ulp. -infinity at -1, NaN below.
double det_log1p(double x);
/// x^y; 0.8 ulp also where the result is huge or tiny, exact where x, y and result are small integers. Negative x needs
/// an integer y (else NaN); all special cases as C's pow.
double det_pow(double x, double y);
/// Cube root; 0.6 ulp, odd.
double det_cbrt(double x);

/// Sine and cosine of any finite x (reduced with 1,280 bits of 2/pi); 0.9 ulp. NaN for infinities.
double det_sin(double x);
double det_cos(double x);
/// Tangent; 2.3 ulp.
double det_tan(double x);
/// Arc tangent; 0.9 ulp.
double det_atan(double x);
/// Angle of the point (x, y) in (-pi, pi]; 1.5 ulp. Zeros and infinities as C's atan2.
double det_atan2(double y, double x);
/// Hyperbolic tangent; 2.4 ulp.
double det_tanh(double x);

/// Error function 2/sqrt(pi) int_0^x e^-t^2 dt; 1.6 ulp.
double det_erf(double x);
/// 1 - erf(x) without cancellation; 3.5 ulp, and underflow above 26.5.
double det_erfc(double x);
/// ln |Gamma(x)|; 4 ulp for x > 0. For x < 0 the error is 4 ulp or 1e-15 (1 + |x|), whichever is larger: the zeros
/// between the negative integers cancel. Infinity at 0, the negative integers and +-infinity.
double det_lgamma(double x);

}  // namespace orrery::sim
