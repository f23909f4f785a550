// A Gaussian process that is taught as a search goes on: what it learns, when it fits again, what it believes
// meanwhile.
#pragma once

#include "experiments/search/process/gaussian_process.hpp"

namespace orrery::experiments::search {

class GpLearner {
 public:
  /// `refit`: it fits again when there are more points by this share.
  GpLearner(const GpInputs& inputs, double length_spread, double refit)
      : process_(inputs, length_spread), refit_(refit) {}

  /// Teaches it all points, of which it knows the first ones, and their values, which may all be new.
  void learn(const std::vector<std::vector<double>>& points, std::vector<double> values);
  /// The values are of another kind from now on.
  void fit_next_time() { due_ = 0; }
  std::vector<Gaussian> predict(const std::vector<std::vector<double>>& points) const {
    return process_.predict(points);
  }
  std::vector<double> smoothed() const { return process_.smoothed(); }
  /// Takes its own mean for an observation (kriging believer), until forget_beliefs().
  void believe(const std::vector<double>& point);
  void forget_beliefs();

 private:
  GaussianProcess process_;
  double refit_;
  std::size_t due_ = 0, taught_ = 0;
  std::vector<double> values_;
};

/// What a process learns of a limit from margins (driver.hpp), above 0 where it is met. Where margins say how much room
/// there is: minus their logarithm, in units of the median size. Where they only say that it is met (0): +1 there; else
/// below 0, deeper for what is further over than is usual. Empty if all meet it.
std::vector<double> met_labels(const std::vector<double>& margins);

}  // namespace orrery::experiments::search
