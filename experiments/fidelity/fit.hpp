// Robust least squares: constants that make log(predicted / measured) small.
//
// Levenberg-Marquardt on r_i = log(predicted_i / measured_i) with iteratively reweighted residuals (Huber: a row beyond
// `huber` counts by its absolute value, so that no handful of outliers decides), the Jacobian by central differences,
// the step by Eigen's QR; then a search along one constant at a time, since models that choose among plans have
// kinks, and both again until neither gains. Constants live between bounds; inside they move on a logistic scale, so
// that no step leaves.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace orrery::experiments {

struct FitConstant {
  std::string path;  ///< "gemm.efficiency"
  double start = 0, min = 0, max = 0;
};

struct FitOptions {
  double huber = 0.06;  ///< log-residual beyond which a row counts linearly
  /// Log-residual that moving a constant by one unit of its free number is worth, as one more row a constant: what it
  /// starts from counts where rows are few. 0: nothing does.
  double prior = 0;
  int rounds = 60;
  double tolerance = 1e-5;  ///< relative gain in loss below which it ends
};

struct FitResult {
  std::vector<double> values;
  double loss = 0;  ///< mean of the Huber loss
  double mape = 0;  ///< mean of |predicted / measured - 1|
  int rounds = 0;
  std::vector<bool> at_bound;  ///< within 1 % of the range of a bound: said beside the constant
};

/// Predictions (any positive unit) of every row for these constants, in the order of `measured`.
using FitModel = std::function<void(std::span<const double> constants, std::span<double> predicted)>;

/// Fits; deterministic. Rows whose prediction is not positive and finite count as e off.
FitResult fit(std::span<const FitConstant> constants, std::span<const double> measured, const FitModel& model,
              const FitOptions& options = {});

}  // namespace orrery::experiments
