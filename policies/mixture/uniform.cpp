// The same share for all domains, and what mixtures share.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "policies/mixture/mixture.hpp"
#include "sim/base/math.hpp"

namespace orrery::policies {

std::vector<double> normalised(std::vector<double> values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  for (double& value : values) value = sum > 0 ? value / sum : 1 / static_cast<double>(values.size());
  return values;
}

std::vector<double> exponentiated(std::span<const double> shares, std::span<const double> scores, double rate,
                                  double floor) {
  const double most = *std::max_element(scores.begin(), scores.end());
  std::vector<double> all;
  for (std::size_t d = 0; d < scores.size(); ++d) all.push_back(shares[d] * sim::det_exp(rate * (scores[d] - most)));
  all = normalised(std::move(all));
  for (double& share : all) share = (1 - floor) * share + floor / static_cast<double>(all.size());
  return all;
}

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double fitted_decay(std::span<const double> losses, double t) {
  double best = INFINITY, value = losses.back();
  const auto count = static_cast<double>(losses.size());
  for (double b = 0.01; b < 3; b *= 1.03) {
    // Least squares of y = a e + c with e = exp(-b i).
    double e1 = 0, e2 = 0, y1 = 0, ey = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const double e = sim::det_exp(-b * static_cast<double>(i));
      e1 += e, e2 += e * e, y1 += losses[i], ey += e * losses[i];
    }
    const double spread = count * e2 - e1 * e1;
    if (spread <= 1e-12) continue;
    const double a = (count * ey - e1 * y1) / spread, c = (y1 - a * e1) / count;
    double error = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const double off = a * sim::det_exp(-b * static_cast<double>(i)) + c - losses[i];
      error += off * off;
    }
    if (error < best) best = error, value = a * sim::det_exp(-b * t) + c;
  }
  return value;
}

namespace {

class UniformMixture final : public Mixture {
 public:
  std::vector<double> shares(const MixtureView& view) override {
    return std::vector<double>(view.shares.size(), 1 / static_cast<double>(view.shares.size()));
  }
  bool wants_gradients() const override { return false; }
};

}  // namespace

void add_uniform_mixture(MixtureRegistry& registry) {
  registry.add<sim::NoParams>("uniform", "All domains have the same share.",
                              [](const sim::NoParams&) { return std::make_unique<UniformMixture>(); });
}

}  // namespace orrery::policies
