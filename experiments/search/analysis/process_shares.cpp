#include "experiments/search/analysis/process_shares.hpp"

#include <algorithm>

#include "experiments/search/sobol.hpp"

namespace orrery::experiments::search {
namespace {

constexpr double kLengthSpread = 1.2;
constexpr int kSteps = 40;

double average(std::span<const double> all) {
  double sum = 0;
  for (const double x : all) sum += x;
  return sum / static_cast<double>(all.size());
}

}  // namespace

ProcessShares::ProcessShares(const Space& space, std::span<const Point> points, std::span<const double> values,
                             std::size_t most)
    : space_(space), inputs_(space), process_(inputs_, kLengthSpread) {
  const std::size_t step = std::max<std::size_t>(1, (points.size() + most - 1) / most);
  std::vector<std::vector<double>> all, seen, unseen;
  std::vector<double> all_values, seen_values, unseen_values;
  for (std::size_t i = 0; i < points.size(); i += step) {
    const bool held = all.size() % 5 == 4;
    all.push_back(inputs_.coordinates_of(points[i]));
    all_values.push_back(values[i]);
    (held ? unseen : seen).push_back(all.back());
    (held ? unseen_values : seen_values).push_back(values[i]);
  }
  const auto centred = [](std::vector<double> some, double mean) {
    for (double& value : some) value -= mean;
    return some;
  };
  const double seen_mean = average(seen_values);
  process_.fit(seen, centred(seen_values, seen_mean), kSteps);
  const std::vector<double> foretold = process_.means(unseen);
  const double mean = unseen_values.empty() ? 0 : average(unseen_values);
  double off = 0, spread = 0;
  for (std::size_t i = 0; i < unseen.size(); ++i) {
    off += (foretold[i] + seen_mean - unseen_values[i]) * (foretold[i] + seen_mean - unseen_values[i]);
    spread += (unseen_values[i] - mean) * (unseen_values[i] - mean);
  }
  explained_ = spread > 0 ? 1 - off / spread : 0;
  mean_ = average(all_values);
  process_.fit(all, centred(std::move(all_values), mean_), kSteps);
}

double ProcessShares::predict(const Point& point) const {
  return process_.means({inputs_.coordinates_of(point)})[0] + mean_;
}

std::vector<double> ProcessShares::predict_all(const std::vector<std::vector<double>>& units) const {
  std::vector<std::vector<double>> where;
  for (const std::vector<double>& one : units) where.push_back(inputs_.coordinates_of(space_.from_units(one)));
  return process_.means(where);
}

ProcessShares::Shares ProcessShares::shares(std::size_t sample, std::uint64_t seed) const {
  const std::size_t n = space_.size();
  std::vector<std::vector<double>> a, b;
  SobolSequence sequence(2 * n, true, seed);
  for (std::size_t i = 0; i < sample; ++i) {
    const std::vector<double> both = sequence.next();
    a.emplace_back(both.begin(), both.begin() + static_cast<std::ptrdiff_t>(n));
    b.emplace_back(both.begin() + static_cast<std::ptrdiff_t>(n), both.end());
  }
  const auto with = [&](const std::vector<std::vector<double>>& own, const std::vector<std::vector<double>>& other,
                        std::size_t p) {
    std::vector<std::vector<double>> all = own;
    for (std::size_t i = 0; i < sample; ++i) all[i][p] = other[i][p];
    return predict_all(all);
  };
  std::vector<double> at_a = predict_all(a), at_b = predict_all(b);
  std::vector<std::vector<double>> a_with, b_with;  // A with a column of B, and the other way round
  for (std::size_t p = 0; p < n; ++p) {
    a_with.push_back(with(a, b, p));
    b_with.push_back(with(b, a, p));
  }
  std::vector<double> whole = at_a;
  whole.insert(whole.end(), at_b.begin(), at_b.end());
  const double middle = average(whole);
  double variance = 0;
  for (const double value : whole) variance += (value - middle) * (value - middle) / static_cast<double>(whole.size());
  const auto product = [&](const std::vector<double>& one, const std::vector<double>& other) {
    double sum = 0;
    for (std::size_t i = 0; i < sample; ++i) sum += (one[i] - middle) * (other[i] - middle);
    return sum / static_cast<double>(sample);
  };
  Shares shares{std::vector<double>(n, 0), std::vector(n, std::vector<double>(n, 0))};
  if (variance <= 0) return shares;
  const double apart = product(at_a, at_b);
  // Points of A and of B-with-a-column-of-A have that column in common; both directions, averaged.
  for (std::size_t p = 0; p < n; ++p)
    shares.alone[p] = ((product(at_a, b_with[p]) + product(at_b, a_with[p])) / 2 - apart) / variance;
  for (std::size_t p = 0; p < n; ++p)
    for (std::size_t q = p + 1; q < n; ++q) {
      // A with column p of B, and B with column q of A, share columns p and q.
      const double closed = ((product(a_with[p], b_with[q]) + product(a_with[q], b_with[p])) / 2 - apart) / variance;
      shares.both[p][q] = closed - shares.alone[p] - shares.alone[q];
    }
  return shares;
}

}  // namespace orrery::experiments::search
