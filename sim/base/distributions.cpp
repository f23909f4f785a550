#include "sim/base/distributions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/base/math.hpp"

namespace orrery::sim {
namespace {

/// ln(1 + x) / x, 1 at 0.
double log1p_ratio(double x) {
  return std::fabs(x) < 1e-8 ? 1 - 0.5 * x : det_log1p(x) / x;
}
/// (e^x - 1) / x, 1 at 0.
double expm1_ratio(double x) {
  return std::fabs(x) < 1e-8 ? 1 + 0.5 * x : det_expm1(x) / x;
}

}  // namespace

/// Integral of the density from 1: (x^(1-s) - 1) / (1 - s), ln x for s = 1; one formula for both.
double Zipf::integral(double x) const {
  const double log_x = det_log(x);
  return log_x * expm1_ratio((1 - exponent_) * log_x);
}
double Zipf::inverse(double y) const {
  const double t = (1 - exponent_) * y;
  return det_exp(y * log1p_ratio(t < -1 ? -1 : t));  // below -1 by rounding only
}
double Zipf::density(double x) const {
  return det_exp(-exponent_ * det_log(x));
}

Zipf::Zipf(std::int64_t n, double exponent) : n_(static_cast<double>(n)), exponent_(exponent) {
  if (n < 1 || n > 1'000'000'000'000)
    throw std::invalid_argument(fmt::format("zipf: expected n in 1 … 1e12, got {}", n));
  if (!(exponent >= 0 && exponent <= 100))
    throw std::invalid_argument(fmt::format("zipf: expected an exponent in [0, 100], got {}", exponent));
  from_ = integral(1.5) - 1;  // the first integer gets its own probability: density(1) = 1
  to_ = integral(n_ + 0.5);
  sure_ = 2 - inverse(integral(2.5) - density(2));
}

std::int64_t Zipf::operator()(RandomStream& random) const {
  while (true) {
    // The draw's area under the density lies next to integer k; it is accepted where it falls in the last density(k) of
    // the stretch (k - 1/2, k + 1/2], which is longer because the density is convex.
    const double y = to_ + random.uniform() * (from_ - to_);
    const double x = inverse(y);
    const double k = std::fmin(std::fmax(std::floor(x + 0.5), 1), n_);
    if (k - x <= sure_ || y >= integral(k + 0.5) - density(k)) return static_cast<std::int64_t>(k);
  }
}

Discrete::Discrete(std::span<const double> weights) : columns_(weights.size()) {
  double sum = 0;
  for (const double weight : weights) {
    if (!(weight >= 0) || !std::isfinite(weight))
      throw std::invalid_argument(fmt::format("discrete: expected weights >= 0, got {}", weight));
    sum += weight;
  }
  if (!(sum > 0) || !std::isfinite(sum))
    throw std::invalid_argument(fmt::format("discrete: expected weights with a finite sum > 0, got {}", sum));
  const auto n = static_cast<double>(weights.size());
  std::vector<std::size_t> poor, rich;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    columns_[i] = {weights[i] / sum * n, i};
    (columns_[i].own < 1 ? poor : rich).push_back(i);
  }
  // Each poor column is filled up by a rich one, which may become poor by it.
  while (!poor.empty() && !rich.empty()) {
    const std::size_t low = poor.back();
    const std::size_t high = rich.back();
    poor.pop_back();
    columns_[low].alias = high;
    columns_[high].own -= 1 - columns_[low].own;
    if (columns_[high].own < 1) {
      rich.pop_back();
      poor.push_back(high);
    }
  }
  // What is left is full but for rounding; an index of weight 0 is not to be drawn even so.
  const auto heaviest = static_cast<std::size_t>(std::max_element(weights.begin(), weights.end()) - weights.begin());
  for (const std::size_t i : poor) columns_[i] = weights[i] > 0 ? Column{1, i} : Column{0, heaviest};
  for (const std::size_t i : rich) columns_[i] = {1, i};
}

std::size_t Discrete::operator()(RandomStream& random) const {
  const auto i = static_cast<std::size_t>(random.below(columns_.size()));
  return random.uniform() < columns_[i].own ? i : columns_[i].alias;
}

}  // namespace orrery::sim
