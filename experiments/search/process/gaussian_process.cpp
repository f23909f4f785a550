#include "experiments/search/process/gaussian_process.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "experiments/search/process/gp_likelihood.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::search {
namespace {

/// What known points say of some places, kLanes at a time: for each, the products of its solved correlations with
/// `weights` and with themselves. `correlate(place, out)` gives a place's correlations.
struct Told {
  std::vector<double> mean, explained;
};
template <class Correlate>
Told told_by(const GpPoints& known, const double* weights, std::size_t places, Correlate correlate) {
  const std::size_t n = known.size();
  Told told{std::vector<double>(places), std::vector<double>(places)};
  std::vector<double> correlations(n), lanes(n * kLanes, 0.0);
  for (std::size_t first = 0; first < places; first += kLanes) {
    const std::size_t here = std::min(kLanes, places - first);
    for (std::size_t lane = 0; lane < here; ++lane) {
      correlate(first + lane, correlations.data());
      for (std::size_t j = 0; j < n; ++j) lanes[j * kLanes + lane] = correlations[j];
    }
    forward_lanes(known.factor(), n, lanes.data());  // lanes beyond `here` hold what nobody reads
    std::array<double, kLanes> mean{}, explained{};
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const double solved = lanes[i * kLanes + lane];
        mean[lane] += weights[i] * solved;
        explained[lane] += solved * solved;
      }
    std::copy_n(mean.begin(), here, told.mean.begin() + static_cast<std::ptrdiff_t>(first));
    std::copy_n(explained.begin(), here, told.explained.begin() + static_cast<std::ptrdiff_t>(first));
  }
  return told;
}

}  // namespace

GaussianProcess::GaussianProcess(const GpInputs& inputs, double length_spread)
    : length_spread_(length_spread), hyper_(gp_start(inputs.parameters())) {
  kernel_.inputs = &inputs;
  take_lengths();
}

void GaussianProcess::take_lengths() {
  kernel_.scale.resize(kernel_.inputs->coordinates());
  for (std::size_t c = 0; c < kernel_.scale.size(); ++c)
    kernel_.scale[c] = sim::det_exp(-hyper_.log_lengths[kernel_.inputs->owner(c)]);
  kernel_.noise = sim::det_exp(hyper_.log_noise);
}

void GaussianProcess::fit(const std::vector<std::vector<double>>& points, const std::vector<double>& values,
                          int steps) {
  shrink(0);
  if (points.size() > 1) {
    hyper_ = fit_gp(*kernel_.inputs, points, values, length_spread_, hyper_, steps);
    take_lengths();
  }
  for (const auto& point : points) append(point);
  observe(values);
}

void GaussianProcess::append(const std::vector<double>& point) {
  points_.append(kernel_, point.data());
}

void GaussianProcess::observe(const std::vector<double>& values) {
  values_ = values;
  values_.resize(size());
  whitened_ = values_;
  forward(points_.factor(), size(), whitened_.data());
  signal_ = profiled_signal(whitened_);
  choose_some();
}

// The best points, around which most candidates are, the last ones, of which some may only be believed, and others over
// the whole time.
void GaussianProcess::choose_some() {
  constexpr std::size_t kBest = kRoughPoints / 2, kLast = 16;
  some_.shrink(0);
  chosen_.clear();
  const std::size_t n = size();
  if (n <= kRoughPoints) return;
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::nth_element(order.begin(), order.begin() + kBest, order.end(), [&](std::size_t a, std::size_t b) {
    return values_[a] != values_[b] ? values_[a] < values_[b] : a < b;
  });
  std::vector<char> taken(n, 0);
  for (std::size_t k = 0; k < kBest; ++k) taken[order[k]] = 1;
  for (std::size_t k = n - kLast; k < n; ++k) taken[k] = 1;
  for (std::size_t i = 0; i < n; ++i)
    if (taken[i] != 0) chosen_.push_back(i);
  const std::size_t left = kRoughPoints - chosen_.size();
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < n; ++i)
    if (taken[i] == 0) others.push_back(i);
  for (std::size_t k = 0; k < std::min(left, others.size()); ++k) chosen_.push_back(others[k * others.size() / left]);
  for (const std::size_t index : chosen_) some_.append(kernel_, points_.at(index).data());
}

void GaussianProcess::shrink(std::size_t n) {
  points_.shrink(n);
}

std::vector<Gaussian> GaussianProcess::predict(const std::vector<std::vector<double>>& points) const {
  const auto correlate = [&](std::size_t i, double* out) { points_.correlate(kernel_, points[i].data(), out); };
  const Told told = told_by(points_, whitened_.data(), points.size(), correlate);
  std::vector<Gaussian> all(points.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = {told.mean[i], std::sqrt(signal_ * std::max(1 - told.explained[i], 1e-12))};
  return all;
}

std::vector<Gaussian> GaussianProcess::predict_roughly(const std::vector<std::vector<double>>& points) const {
  if (chosen_.empty()) return predict(points);
  std::vector<Gaussian> all(points.size());
  std::vector<double> weights = whitened_, correlations(size());
  backward(points_.factor(), size(), weights.data());
  const Told told = told_by(some_, whitened_.data(), points.size(), [&](std::size_t i, double* out) {
    points_.correlate(kernel_, points[i].data(), correlations.data());
    all[i].mean = dot(weights.data(), correlations.data(), weights.size());
    for (std::size_t k = 0; k < chosen_.size(); ++k) out[k] = correlations[chosen_[k]];
  });
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i].deviation = std::sqrt(signal_ * std::max(1 - told.explained[i], 1e-12));
  return all;
}

std::vector<double> GaussianProcess::means(const std::vector<std::vector<double>>& points) const {
  std::vector<double> weights = whitened_, correlation(size()), all;
  backward(points_.factor(), size(), weights.data());
  all.reserve(points.size());
  for (const std::vector<double>& point : points) {
    points_.correlate(kernel_, point.data(), correlation.data());
    double sum = 0;
    for (std::size_t j = 0; j < weights.size(); ++j) sum += weights[j] * correlation[j];
    all.push_back(sum);
  }
  return all;
}

std::vector<double> GaussianProcess::smoothed() const {
  // K (K + noise)^-1 y = y - noise (K + noise)^-1 y
  std::vector<double> weights = whitened_;
  backward(points_.factor(), size(), weights.data());
  std::vector<double> means(size());
  for (std::size_t i = 0; i < means.size(); ++i) means[i] = values_[i] - kernel_.noise * weights[i];
  return means;
}

}  // namespace orrery::experiments::search
