// Gaussian process regression over the points of a design space.
//
// Kernel: Matern 5/2 of r^2 = sum over parameters of (distance / length)^2, one length a parameter. A number's distance
// is that of its places in the unit cube, a category's is 1 if it is another one; a parameter that does not count
// stands half an interval off the middle of those that do. That is a distance between vectors (an inactive number gets
// a coordinate of its own), so the kernel is a kernel. Mean 0: the caller centres. Lengths and noise are those of the
// largest marginal likelihood under weak priors; the signal's variance is profiled out. At most kFitPoints points take
// part in that fit; all of them in the posterior, each appended to the Cholesky factor in O(n^2). Source: Rasmussen and
// Williams 2006, algorithm 2.1 and equation 5.9. Sums run in a fixed order and functions are those of
// sim/base/math.hpp: the same bits on every processor. Left out: sparse approximations, anisotropy beyond the axes.
#pragma once

#include <vector>

#include "experiments/search/process/gp_points.hpp"

namespace orrery::experiments::search {

struct GpHyper {
  std::vector<double> log_lengths;
  double log_noise = 0;  ///< of the noise's variance as a share of the signal's
};

struct Gaussian {
  double mean = 0, deviation = 1;
};

class GaussianProcess {
 public:
  static constexpr std::size_t kFitPoints = 96, kRoughPoints = 128;

  /// `length_spread`: deviation of the prior of the lengths' logarithms; small where observations say little.
  explicit GaussianProcess(const GpInputs& inputs, double length_spread = 1.2);
  std::size_t size() const { return points_.size(); }
  const GpHyper& hyper() const { return hyper_; }

  /// Chooses lengths and noise for these observations by `steps` gradient steps from where it stands and from the
  /// start, and forgets what was appended. O(steps x kFitPoints^3).
  void fit(const std::vector<std::vector<double>>& points, const std::vector<double>& values, int steps = 25);
  /// Adds a point. O(n^2).
  void append(const std::vector<double>& point);
  /// Observations of all points appended. O(n^2).
  void observe(const std::vector<double>& values);
  /// Forgets points beyond the first n; observe() before the next prediction.
  void shrink(std::size_t n);

  /// Posterior of the noise-free value at each point. O(n^2) a point.
  std::vector<Gaussian> predict(const std::vector<std::vector<double>>& points) const;
  /// As predict(), but with deviations that rest on kRoughPoints of the points: at least as large, and cheaper where
  /// many points are known. The mean is that of predict() up to rounding.
  std::vector<Gaussian> predict_roughly(const std::vector<std::vector<double>>& points) const;
  /// Its mean alone. O(n) a point, and O(n^2) once.
  std::vector<double> means(const std::vector<std::vector<double>>& points) const;
  /// Posterior means at the points themselves. O(n^2).
  std::vector<double> smoothed() const;

 private:
  void take_lengths();
  void choose_some();

  double length_spread_;
  GpHyper hyper_;
  GpKernel kernel_;
  GpPoints points_;
  std::vector<double> values_, whitened_;
  double signal_ = 1;                // variance
  GpPoints some_;                    // of points_: what rough deviations rest on
  std::vector<std::size_t> chosen_;  // their indices
};

}  // namespace orrery::experiments::search
