// The marginal likelihood of a Gaussian process and its climb: kernel, triangular solves in a fixed order of sums,
// gradient, and steps that depend on the signs of the gradient alone (iRprop-, Igel and Huesken 2000).
#pragma once

#include "experiments/search/gaussian_process.hpp"

namespace orrery::experiments::search {

/// Matern 5/2 of the square of the scaled distance.
double matern52(double square);

/// Sum of products in a fixed order on every processor.
double dot(const double* a, const double* b, std::size_t n);
/// Solves L x = b in place; L is packed, row after row. O(n^2).
void forward(const double* factor, std::size_t n, double* b);
/// Solves L^T x = b in place. O(n^2).
void backward(const double* factor, std::size_t n, double* b);
/// The next row of a factor of n rows: `line` holds n correlations and room for the pivot. O(n^2).
void extend_factor(const double* factor, std::size_t n, double* line, double diagonal, double least_pivot);

/// Variance of the signal that fits whitened observations best, with a weak pull to 1.
double profiled_signal(const std::vector<double>& whitened);

/// Where a fit starts: middling lengths, little noise.
void set_prior(bool labels);
GpHyper gp_start(std::size_t parameters);
/// Hyperparameters of the largest penalised likelihood found by `steps` steps from `warm` and from the start.
GpHyper fit_gp(const GpInputs& inputs, const std::vector<std::vector<double>>& points,
               const std::vector<double>& values, double length_spread, const GpHyper& warm, int steps);

}  // namespace orrery::experiments::search
