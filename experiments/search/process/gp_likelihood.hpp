// The marginal likelihood of a Gaussian process and its climb: kernel, triangular solves in a fixed order of sums,
// gradient, and steps that depend on the signs of the gradient alone (iRprop-, Igel and Huesken 2000).
#pragma once

#include "experiments/search/process/gaussian_process.hpp"

namespace orrery::experiments::search {

/// sqrt(5) r and e^(-sqrt(5) r) of squares of scaled distances r: what the Matern 5/2 kernel and its slope are made of.
class MaternDecays {
 public:
  void set(const double* squares, std::size_t n);
  const double* roots() const { return roots_.data(); }
  const double* decays() const { return decays_.data(); }

 private:
  std::vector<double> roots_, minus_, decays_;  // may be longer than what is set
};
/// Makes squares of scaled distances correlations, in place.
void matern52(double* squares, std::size_t n, MaternDecays& decays);

/// Sum of products in a fixed order on every processor.
double dot(const double* a, const double* b, std::size_t n);
/// Solves L x = b in place; L is packed, row after row. O(n^2).
void forward(const double* factor, std::size_t n, double* b);
/// Solves L x = b for kLanes right sides at once, in place: element i of right side k is lanes[i * kLanes + k]. Each
/// solution has the same bits whatever stands beside it. O(n^2).
constexpr std::size_t kLanes = 8;
void forward_lanes(const double* factor, std::size_t n, double* lanes);
/// Solves L^T x = b in place. O(n^2).
void backward(const double* factor, std::size_t n, double* b);
/// The next row of a factor of n rows: `line` holds n correlations and room for the pivot. O(n^2).
void extend_factor(const double* factor, std::size_t n, double* line, double diagonal, double least_pivot);

/// Variance of the signal that fits whitened observations best, with a weak pull to 1.
double profiled_signal(const std::vector<double>& whitened);

/// Where a fit starts: middling lengths, little noise.
GpHyper gp_start(std::size_t parameters);
/// Hyperparameters of the largest penalised likelihood found by `steps` steps from `warm` and from the start.
GpHyper fit_gp(const GpInputs& inputs, const std::vector<std::vector<double>>& points,
               const std::vector<double>& values, double length_spread, const GpHyper& warm, int steps);

}  // namespace orrery::experiments::search
