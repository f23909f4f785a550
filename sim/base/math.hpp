// Elementary functions that give the same bits on every processor.
//
// The C library's transcendental functions differ between versions and processors, so a result that went through them
// would not be reproducible. These use only IEEE-exact operations (+, -, *, /, sqrt, scaling by powers of two) in a
// fixed order; the build forbids contraction to fused multiply-add. Errors are a few units in the last place; pow loses
// a relative |y log x| * 1e-16.
#pragma once

namespace orrery::sim {

/// e^x. Overflows to infinity above 709.78, underflows to 0 below -745.
double det_exp(double x);
/// Natural logarithm; x <= 0 gives -infinity (0) or NaN (below).
double det_log(double x);
/// x^y for x >= 0; x = 0 gives 0 for y > 0 and 1 for y = 0.
double det_pow(double x, double y);
/// Sine and cosine for |x| up to 1e6.
double det_sin(double x);
double det_cos(double x);

}  // namespace orrery::sim
