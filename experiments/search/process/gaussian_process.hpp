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

#include "experiments/search/space.hpp"

namespace orrery::experiments::search {

/// A space's points as coordinates that the kernel measures.
class GpInputs {
 public:
  explicit GpInputs(const Space& space);
  std::size_t parameters() const { return parameters_; }
  std::size_t coordinates() const { return owner_.size(); }
  std::vector<double> coordinates_of(const Point& point) const;
  /// Square of the distance along each parameter, before lengths.
  void squares(const double* a, const double* b, double* out) const;
  /// The parameter of a coordinate, and whether it is a category.
  std::size_t owner(std::size_t coordinate) const { return owner_[coordinate]; }
  bool category(std::size_t coordinate) const { return category_[coordinate] != 0; }

 private:
  const Space& space_;
  std::size_t parameters_;
  std::vector<std::size_t> owner_;
  std::vector<char> category_;
  std::vector<char> conditional_;  // by parameter
};

struct GpHyper {
  std::vector<double> log_lengths;
  double log_noise = 0;  ///< of the noise's variance as a share of the signal's
};

struct Gaussian {
  double mean = 0, deviation = 1;
};

class GaussianProcess {
 public:
  static constexpr std::size_t kFitPoints = 96;

  /// `length_spread`: deviation of the prior of the lengths' logarithms; small where observations say little.
  explicit GaussianProcess(const GpInputs& inputs, double length_spread = 1.2);
  std::size_t size() const { return count_; }
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
  /// Its mean alone. O(n) a point, and O(n^2) once.
  std::vector<double> means(const std::vector<std::vector<double>>& points) const;
  /// Posterior means at the points themselves. O(n^2).
  std::vector<double> smoothed() const;

 private:
  void scale_lengths();
  void row(const double* point, double* out) const;

  const GpInputs* inputs_;
  double length_spread_;
  GpHyper hyper_;
  std::vector<double> scale_;  // by coordinate: 1 / length of its parameter
  std::size_t count_ = 0;
  std::vector<std::vector<double>> columns_;  // by coordinate: of each point
  std::vector<double> factor_;                // lower triangle, row after row
  std::vector<double> values_, whitened_;
  double signal_ = 1;  // variance
};

}  // namespace orrery::experiments::search
