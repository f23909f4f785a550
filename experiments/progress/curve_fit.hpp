// The curve of reward over compute of reinforcement learning (ScaleRL, arXiv 2510.13786):
// R(C) = R0 + (A - R0) / (1 + (Cmid / C)^B), its fit, and how far the fit may be trusted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace orrery::experiments::progress {

struct CurvePoint {
  double compute = 0, reward = 0;  ///< compute in any unit, above 0
};

struct RewardCurve {
  double start = 0;                              ///< R0
  double ceiling = 0, exponent = 0, middle = 0;  ///< A, B, Cmid
  double at(double compute) const;
};

struct CurveFit {
  RewardCurve curve;
  double residual = 0;                       ///< root of the mean square
  double ceiling_low = 0, ceiling_high = 0;  ///< 90 % of resampled fits
  double reach = 0;                          ///< largest compute over Cmid
  /// Whether it may be extrapolated: the window reaches 2 Cmid. Below, the ceiling is anybody's guess (fits of drawn
  /// curves are off by 0.13 at 0.7 Cmid).
  bool trusted() const { return reach >= 2; }
};

/// Least squares over A, B and Cmid: for each B and Cmid the best A is linear, and these two are found on grids that
/// narrow. `start` is R0. The interval comes from fits to `draws` sets of resampled residuals, by seed.
/// There must be four points and more.
CurveFit fit_curve(std::span<const CurvePoint> points, double start, std::int64_t draws, std::uint64_t seed);

}  // namespace orrery::experiments::progress
