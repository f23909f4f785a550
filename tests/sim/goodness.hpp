// How well draws fit a distribution: moments, Kolmogorov-Smirnov, chi-square. Seeds are fixed, so that a passing test
// stays one; the limits are those of significance 0.001.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

struct Moments {
  double mean = 0, variance = 0;
};
template <class Draw>
Moments moments(int n, Draw draw) {
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const auto x = static_cast<double>(draw());
    sum += x;
    squares += x * x;
  }
  return {sum / n, squares / n - (sum / n) * (sum / n)};
}

/// Largest distance between the empirical distribution of n draws and `cdf`.
template <class Draw, class Cdf>
double ks_distance(int n, Draw draw, Cdf cdf) {
  std::vector<double> xs(static_cast<std::size_t>(n));
  for (double& x : xs) x = draw();
  std::sort(xs.begin(), xs.end());
  double worst = 0;
  for (int i = 0; i < n; ++i) {
    const double f = cdf(xs[static_cast<std::size_t>(i)]);
    worst = std::max({worst, std::fabs(f - static_cast<double>(i) / n), std::fabs(f - static_cast<double>(i + 1) / n)});
  }
  return worst;
}

inline constexpr int kDraws = 200'000;
/// Kolmogorov-Smirnov at significance 0.001: 1.95 / sqrt(n).
inline const double kKsLimit = 1.95 / std::sqrt(static_cast<double>(kDraws));

/// Chi-square of n draws of integers against `probability(k)`, divided by its 0.999 quantile (Wilson and Hilferty):
/// below 1 fits. Values with fewer than 20 expected draws share a bin on either side of the others.
template <class Draw, class Probability>
double chi_square_ratio(int n, Draw draw, Probability probability, long long low, long long high) {
  std::vector<double> expected, seen;
  std::vector<std::size_t> bin_of;
  double filling = 0, covered = 0;
  for (long long k = low; k <= high; ++k) {
    bin_of.push_back(expected.size());
    filling += n * probability(k);
    covered += probability(k);
    if (filling < 20) continue;
    expected.push_back(filling);
    filling = 0;
  }
  expected.push_back(filling + n * std::max(0.0, 1 - covered));  // and whatever lies outside
  seen.resize(expected.size());
  for (int i = 0; i < n; ++i) {
    const long long k = draw();
    const bool inside = k >= low && k <= high;
    ++seen[inside ? bin_of[static_cast<std::size_t>(k - low)] : seen.size() - 1];
  }
  double chi = 0;
  for (std::size_t b = 0; b < seen.size(); ++b) {
    // A last bin of next to nothing says nothing unless draws fall there.
    if (expected[b] < 1e-3) {
      chi += seen[b] > 0 ? 1e6 : 0;
      continue;
    }
    if (expected[b] < 5 && seen[b] < 15) continue;
    chi += (seen[b] - expected[b]) * (seen[b] - expected[b]) / expected[b];
  }
  const auto degrees = static_cast<double>(std::max<std::size_t>(seen.size() - 1, 1));
  const double root = 1 - 2 / (9 * degrees) + 3.09 * std::sqrt(2 / (9 * degrees));
  return chi / (degrees * root * root * root);
}
