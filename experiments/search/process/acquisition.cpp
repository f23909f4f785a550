#include "experiments/search/process/acquisition.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/math.hpp"

namespace orrery::experiments::search {
namespace {

constexpr double kRootHalf = 0.70710678118654752440;     // 1 / sqrt(2)
constexpr double kDensity = 0.39894228040143267794;      // 1 / sqrt(2 pi)
constexpr double kLogDensity = -0.91893853320467274178;  // its logarithm
constexpr double kFar = -6;                              // below: series in 1 / x^2

double density(double x) {
  return kDensity * sim::det_exp(-0.5 * x * x);
}

}  // namespace

double normal_below(double x) {
  return 0.5 * sim::det_erfc(-x * kRootHalf);
}

double log_normal_below(double x) {
  if (x > kFar) return sim::det_log(normal_below(x));
  const double inverse = 1 / (x * x);  // Mills ratio: density / |x| (1 - 1/x^2 + 3/x^4)
  return kLogDensity - 0.5 * x * x - sim::det_log(-x) + sim::det_log1p(-inverse * (1 - 3 * inverse));
}

double expected_below(const Gaussian& belief, double level) {
  const double z = (level - belief.mean) / belief.deviation;
  return belief.deviation * (z * normal_below(z) + density(z));
}

double log_expected_below(const Gaussian& belief, double level) {
  const double z = (level - belief.mean) / belief.deviation;
  if (z > kFar) return sim::det_log(belief.deviation * (z * normal_below(z) + density(z)));
  // density / z^2 (1 - 3/z^2)
  const double inverse = 1 / (z * z);
  return sim::det_log(belief.deviation * inverse) + kLogDensity - 0.5 * z * z + sim::det_log1p(-3 * inverse);
}

std::vector<Pair> front_below(std::vector<Pair> all, const Pair& reference) {
  std::sort(all.begin(), all.end());
  std::vector<Pair> front;
  double least = reference[1];
  for (const Pair& point : all) {
    if (point[0] >= reference[0] || point[1] >= least) continue;
    least = point[1];
    front.push_back(point);
  }
  return front;
}

double expected_hypervolume_improvement(const Gaussian& first, const Gaussian& second, std::span<const Pair> front,
                                        const Pair& reference) {
  // Between the first objectives of two neighbours the front's edge stands at the left one's second objective.
  double sum = 0, left = 0, level = reference[1];
  for (std::size_t i = 0; i <= front.size(); ++i) {
    const double right = expected_below(first, i < front.size() ? front[i][0] : reference[0]);
    sum += (right - left) * expected_below(second, level);
    if (i < front.size()) level = front[i][1];
    left = right;
  }
  return sum;
}

ObjectiveScale::ObjectiveScale(std::span<const double> values) {
  if (values.empty()) return;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  median_ = sorted[sorted.size() / 2];
  reach_ = median_ - sorted.front();
  double sum = 0, squares = 0;
  for (const double value : sorted) sum += drawn(value);
  mean_ = sum / double(sorted.size());
  for (const double value : sorted) squares += (drawn(value) - mean_) * (drawn(value) - mean_);
  const double deviation = std::sqrt(squares / double(sorted.size()));
  deviation_ = deviation > 0 && std::isfinite(deviation) ? deviation : 1;
}

double ObjectiveScale::drawn(double value) const {
  if (value <= median_ || !(reach_ > 0)) return value;
  return median_ + reach_ * sim::det_log1p((value - median_) / reach_);
}

}  // namespace orrery::experiments::search
