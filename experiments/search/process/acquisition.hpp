// What a point is worth looking at, given what a Gaussian process believes of it. All objectives are minimised.
//
// Logarithms, since far from the best point the values themselves are too small for a double.
// Sources: expected improvement: Jones 1998; expected hypervolume improvement: Emmerich 2008, here as a sum over the
// strips between neighbours of a front, exact for two objectives and O(front); probability of feasibility: Gardner
// 2014.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "experiments/search/process/gaussian_process.hpp"

namespace orrery::experiments::search {

/// P(X <= x) of a standard normal, and its logarithm (exact to 1e-3 in the far tail).
double normal_below(double x);
double log_normal_below(double x);

/// E[max(0, level - X)].
double expected_below(const Gaussian& belief, double level);
/// Its logarithm, finite for any level.
double log_expected_below(const Gaussian& belief, double level);

using Pair = std::array<double, 2>;

/// The points of `all` that no other dominates and that lie below the reference in both objectives, by rising first
/// and falling second objective; equal points once.
std::vector<Pair> front_below(std::vector<Pair> all, const Pair& reference);
/// By how much a new point is expected to raise the hypervolume between front (as of front_below) and reference; the
/// objectives are independent.
double expected_hypervolume_improvement(const Gaussian& first, const Gaussian& second, std::span<const Pair> front,
                                        const Pair& reference);

/// Numbers on a scale that Gaussian processes like: mean 0 and deviation 1, after values worse than the median have
/// been drawn together (above it one more factor e is one more distance between best and median). Order is kept.
class ObjectiveScale {
 public:
  explicit ObjectiveScale(std::span<const double> values);
  double operator()(double value) const { return (drawn(value) - mean_) / deviation_; }

 private:
  double drawn(double value) const;
  double median_ = 0, reach_ = 1, mean_ = 0, deviation_ = 1;
};

}  // namespace orrery::experiments::search
