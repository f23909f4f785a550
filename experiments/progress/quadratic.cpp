#include "experiments/progress/quadratic.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/math.hpp"

namespace orrery::experiments::progress {

NoisyQuadratic spaced_quadratic(std::int64_t modes, double condition, double noise) {
  NoisyQuadratic problem;
  for (std::int64_t i = 0; i < modes; ++i) {
    const double at = modes > 1 ? static_cast<double>(i) / static_cast<double>(modes - 1) : 0;
    problem.curvature.push_back(sim::det_pow(condition, -at));
    problem.noise.push_back(noise * problem.curvature.back());
  }
  return problem;
}

double train_quadratic(const NoisyQuadratic& problem, std::span<const double> rates, double peak,
                       const std::function<void(const QuadraticStep&)>& tell) {
  const std::size_t modes = problem.curvature.size();
  std::vector<double> square(modes, problem.start);
  const auto loss = [&] {
    double sum = 0;
    for (std::size_t i = 0; i < modes; ++i) sum += problem.curvature[i] * square[i];
    return sum / 2;
  };
  for (const double share : rates) {
    const double rate = peak * share;
    double norm = 0;
    for (std::size_t i = 0; i < modes; ++i) {
      const double h = problem.curvature[i], c = problem.noise[i], kept = 1 - rate * h;
      if (tell) norm += h * h * square[i] + c;
      square[i] = kept * kept * square[i] + rate * rate * c;
    }
    if (tell) tell({loss(), std::sqrt(norm)});
  }
  const double end = loss();
  return std::isfinite(end) ? end : std::numeric_limits<double>::infinity();
}

BestPeak best_peak(const NoisyQuadratic& problem, std::span<const double> rates, std::int64_t tries, double lowest) {
  const double highest = 2 / std::ranges::max(problem.curvature);
  BestPeak best{.loss = std::numeric_limits<double>::infinity()};
  for (std::int64_t i = 0; i < tries; ++i) {
    const double at = tries > 1 ? static_cast<double>(i) / static_cast<double>(tries - 1) : 0;
    const double peak = lowest * sim::det_pow(highest / lowest, at);
    const double loss = train_quadratic(problem, rates, peak);
    if (loss < best.loss || i == 0) best = {peak, loss};
  }
  return best;
}

}  // namespace orrery::experiments::progress
