#include "experiments/progress/curve_fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/math.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments::progress {
namespace {

/// How much of the way from R0 to A is gone.
double gone(double compute, double exponent, double middle) {
  return 1 / (1 + sim::det_pow(middle / compute, exponent));
}

struct Trial {
  double error = std::numeric_limits<double>::infinity();
  double ceiling = 0;
};

/// The best ceiling for an exponent and a middle.
Trial tried(std::span<const CurvePoint> points, double start, double exponent, double middle) {
  double xx = 0, xy = 0, yy = 0;
  for (const CurvePoint& point : points) {
    const double x = gone(point.compute, exponent, middle), y = point.reward - start;
    xx += x * x, xy += x * y, yy += y * y;
  }
  if (!(xx > 0)) return {};
  return {std::max(0.0, yy - xy * xy / xx), start + xy / xx};
}

/// A grid over the logarithms of exponent and middle.
struct Grid {
  double exponent_low, exponent_high, middle_low, middle_high;
};

RewardCurve fitted(std::span<const CurvePoint> points, double start, Grid grid, int across, int rounds) {
  RewardCurve best{.start = start};
  for (int round = 0; round < rounds; ++round) {
    Trial least;
    double log_exponent = 0, log_middle = 0;
    const auto at = [&](double low, double high, int i) { return low + (high - low) * i / (across - 1); };
    for (int i = 0; i < across; ++i)
      for (int j = 0; j < across; ++j) {
        const double e = at(grid.exponent_low, grid.exponent_high, i), m = at(grid.middle_low, grid.middle_high, j);
        const Trial trial = tried(points, start, sim::det_exp(e), sim::det_exp(m));
        if (trial.error < least.error) least = trial, log_exponent = e, log_middle = m;
      }
    best = {start, least.ceiling, sim::det_exp(log_exponent), sim::det_exp(log_middle)};
    const double exponents = (grid.exponent_high - grid.exponent_low) / (across - 1) * 1.5,
                 middles = (grid.middle_high - grid.middle_low) / (across - 1) * 1.5;
    grid = {log_exponent - exponents, log_exponent + exponents, log_middle - middles, log_middle + middles};
  }
  return best;
}

}  // namespace

double RewardCurve::at(double compute) const {
  return start + (ceiling - start) * gone(compute, exponent, middle);
}

CurveFit fit_curve(std::span<const CurvePoint> points, double start, std::int64_t draws, std::uint64_t seed) {
  constexpr int kAcross = 33, kRounds = 8, kAcrossAgain = 9, kRoundsAgain = 5;
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const CurvePoint& point : points) low = std::min(low, point.compute), high = std::max(high, point.compute);
  const Grid whole{sim::det_log(0.1), sim::det_log(10), sim::det_log(low / 10), sim::det_log(high * 10)};
  CurveFit fit{.curve = fitted(points, start, whole, kAcross, kRounds)};
  fit.reach = high / fit.curve.middle;
  std::vector<double> residuals;
  for (const CurvePoint& point : points) {
    residuals.push_back(point.reward - fit.curve.at(point.compute));
    fit.residual += residuals.back() * residuals.back() / static_cast<double>(points.size());
  }
  fit.residual = std::sqrt(fit.residual);
  sim::RandomStream random(seed, "curve_fit");
  const double e = sim::det_log(fit.curve.exponent), m = sim::det_log(fit.curve.middle);
  const Grid near{e - 1.5, e + 1.5, m - 2, m + 2};
  std::vector<double> ceilings;
  std::vector<CurvePoint> drawn(points.begin(), points.end());
  for (std::int64_t i = 0; i < draws; ++i) {
    for (CurvePoint& point : drawn)
      point.reward = fit.curve.at(point.compute) + residuals[random.below(residuals.size())];
    ceilings.push_back(fitted(drawn, start, near, kAcrossAgain, kRoundsAgain).ceiling);
  }
  std::ranges::sort(ceilings);
  const auto quantile = [&](double q) {
    if (ceilings.empty()) return fit.curve.ceiling;
    return ceilings[static_cast<std::size_t>(std::llround(q * static_cast<double>(ceilings.size() - 1)))];
  };
  fit.ceiling_low = quantile(0.05);
  fit.ceiling_high = quantile(0.95);
  return fit;
}

}  // namespace orrery::experiments::progress
