// A noisy quadratic: what stochastic gradient descent comes to on it, in closed form for each eigenvalue.
//
// With curvature h, gradient noise of variance c and rate r, E[x^2] goes to (1 - r h)^2 E[x^2] + r^2 c at each step;
// the loss is sum h E[x^2] / 2. Nothing is drawn: every schedule has one exact loss.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace orrery::experiments::progress {

struct NoisyQuadratic {
  std::vector<double> curvature;  ///< of each mode, above 0
  std::vector<double> noise;      ///< variance of each mode's gradient
  double start = 1;               ///< E[x^2] of each mode before the first step
};

/// Modes with curvatures spaced evenly in their logarithm from 1 down to 1/condition, noise in proportion to them
/// (`noise` times h), as gradients of a fit near its optimum have it.
NoisyQuadratic spaced_quadratic(std::int64_t modes, double condition, double noise);

/// What each step leaves behind.
struct QuadraticStep {
  double loss = 0;
  double norm = 0;  ///< root of E |g|^2, of the gradient that the step took
};

/// Loss after all steps; infinite where it diverges. `tell` hears every step; may be empty.
double train_quadratic(const NoisyQuadratic& problem, std::span<const double> rates, double peak,
                       const std::function<void(const QuadraticStep&)>& tell = {});

/// The best of some peak rates, spaced evenly in their logarithm from `lowest` to the largest that does not diverge on
/// the steepest mode (2 / h).
struct BestPeak {
  double peak = 0, loss = 0;
};
BestPeak best_peak(const NoisyQuadratic& problem, std::span<const double> rates, std::int64_t tries, double lowest);

}  // namespace orrery::experiments::progress
