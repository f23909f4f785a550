// Shares of variance by a Gaussian process over the trials: Sobol's indices of its mean.
//
// First order and closed second order indices from two point sets A and B of a scrambled Sobol sequence and those in
// which they exchange one column (Saltelli 2002, 2010), over the unit cube; constraints are not looked at. The process
// is fitted to at most `most` trials, an even pick. What it explains is measured on a fifth of these that it has not
// seen.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "experiments/search/process/gaussian_process.hpp"
#include "experiments/search/space.hpp"

namespace orrery::experiments::search {

class ProcessShares {
 public:
  ProcessShares(const Space& space, std::span<const Point> points, std::span<const double> values, std::size_t most);
  /// Share of variance on trials that it has not seen; below 0 is worse than the mean.
  double explained() const { return explained_; }
  double predict(const Point& point) const;

  struct Shares {
    std::vector<double> alone;              ///< by parameter
    std::vector<std::vector<double>> both;  ///< beyond each alone, first < second
  };
  /// From `sample` points of A and B each.
  Shares shares(std::size_t sample, std::uint64_t seed) const;

 private:
  std::vector<double> predict_all(const std::vector<std::vector<double>>& units) const;

  const Space& space_;
  GpInputs inputs_;
  GaussianProcess process_;
  double mean_ = 0, explained_ = 0;
};

}  // namespace orrery::experiments::search
