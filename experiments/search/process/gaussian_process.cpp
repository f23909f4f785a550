#include "experiments/search/process/gaussian_process.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>

#include "experiments/search/process/gp_likelihood.hpp"
#include "sim/base/also_avx.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::search {
namespace {

constexpr double kHalf = 0.5;          // how far a number that does not count stands from the middle of those that do
constexpr double kLeastPivot = 1e-10;  // of a correlation matrix with ones on its diagonal

/// Adds the square of the scaled distance from each number of a column.
ORRERY_ALSO_AVX void add_squares(const double* column, std::size_t n, double own, double scale, double* out) {
  for (std::size_t j = 0; j < n; ++j) {
    const double apart = (own - column[j]) * scale;
    out[j] += apart * apart;
  }
}

}  // namespace

GpInputs::GpInputs(const Space& space) : space_(space), parameters_(space.size()) {
  for (std::size_t i = 0; i < space.size(); ++i) {
    const Parameter& parameter = space.parameters()[i];
    const bool category = parameter.kind == ParameterKind::categorical;
    conditional_.push_back(!category && parameter.counts ? 1 : 0);
    for (int n = 0; n <= conditional_.back(); ++n) {
      owner_.push_back(i);
      category_.push_back(category ? 1 : 0);
    }
  }
}

std::vector<double> GpInputs::coordinates_of(const Point& point) const {
  std::vector<double> all;
  all.reserve(owner_.size());
  for (std::size_t i = 0; i < parameters_; ++i) {
    const bool counts = !std::isnan(point[i]);
    if (space_.parameters()[i].kind == ParameterKind::categorical) {
      all.push_back(counts ? point[i] : -1);
      continue;
    }
    all.push_back(space_.to_unit(i, point[i]));
    if (conditional_[i] != 0) all.push_back(counts ? 0 : kHalf);
  }
  return all;
}

void GpInputs::squares(const double* a, const double* b, double* out) const {
  std::fill(out, out + parameters_, 0.0);
  for (std::size_t c = 0; c < owner_.size(); ++c) {
    const double apart = a[c] - b[c];
    out[owner_[c]] += category_[c] != 0 ? (apart != 0 ? 1.0 : 0.0) : apart * apart;
  }
}

GaussianProcess::GaussianProcess(const GpInputs& inputs, double length_spread)
    : inputs_(&inputs), length_spread_(length_spread), hyper_(gp_start(inputs.parameters())) {
  scale_lengths();
}

void GaussianProcess::scale_lengths() {
  scale_.resize(inputs_->coordinates());
  columns_.resize(scale_.size());
  for (std::size_t c = 0; c < scale_.size(); ++c) scale_[c] = sim::det_exp(-hyper_.log_lengths[inputs_->owner(c)]);
}

void GaussianProcess::fit(const std::vector<std::vector<double>>& points, const std::vector<double>& values,
                          int steps) {
  shrink(0);
  if (points.size() > 1) {
    hyper_ = fit_gp(*inputs_, points, values, length_spread_, hyper_, steps);
    scale_lengths();
  }
  for (const auto& point : points) append(point);
  observe(values);
}

void GaussianProcess::row(const double* point, double* out) const {
  std::fill(out, out + count_, 0.0);
  for (std::size_t c = 0; c < scale_.size(); ++c) {
    const double *column = columns_[c].data(), own = point[c], scale = scale_[c];
    if (!inputs_->category(c)) {
      add_squares(column, count_, own, scale, out);
      continue;
    }
    for (std::size_t j = 0; j < count_; ++j) out[j] += own != column[j] ? scale * scale : 0.0;
  }
  static thread_local MaternDecays decays;  // its buffers
  matern52(out, count_, decays);
}

void GaussianProcess::append(const std::vector<double>& point) {
  const std::size_t start = factor_.size(), n = count_;
  factor_.resize(start + n + 1);
  double* line = factor_.data() + start;
  row(point.data(), line);
  extend_factor(factor_.data(), n, line, 1 + sim::det_exp(hyper_.log_noise), kLeastPivot);
  for (std::size_t c = 0; c < columns_.size(); ++c) columns_[c].push_back(point[c]);
  ++count_;
}

void GaussianProcess::observe(const std::vector<double>& values) {
  values_ = values;
  values_.resize(count_);
  whitened_ = values_;
  forward(factor_.data(), count_, whitened_.data());
  signal_ = profiled_signal(whitened_);
}

void GaussianProcess::shrink(std::size_t n) {
  count_ = std::min(count_, n);
  for (std::vector<double>& column : columns_) column.resize(count_);
  factor_.resize(count_ * (count_ + 1) / 2);
}

std::vector<Gaussian> GaussianProcess::predict(const std::vector<std::vector<double>>& points) const {
  std::vector<Gaussian> all(points.size());
  constexpr std::size_t kLine = 64;  // bytes of a line of cache: lanes that straddle two are read twice
  std::vector<double> correlation(count_), room(count_ * kLanes + kLine / sizeof(double));
  void* start = room.data();
  std::size_t bytes = room.size() * sizeof(double);
  auto* lanes = static_cast<double*>(std::align(kLine, count_ * kLanes * sizeof(double), start, bytes));
  for (std::size_t first = 0; first < points.size(); first += kLanes) {
    const std::size_t here = std::min(kLanes, points.size() - first);
    for (std::size_t lane = 0; lane < here; ++lane) {
      row(points[first + lane].data(), correlation.data());
      for (std::size_t j = 0; j < count_; ++j) lanes[j * kLanes + lane] = correlation[j];
    }
    for (std::size_t lane = here; lane < kLanes; ++lane)
      for (std::size_t j = 0; j < count_; ++j) lanes[j * kLanes + lane] = 0;
    forward_lanes(factor_.data(), count_, lanes);
    std::array<double, kLanes> mean{}, explained{};
    for (std::size_t i = 0; i < count_; ++i)
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const double solved = lanes[i * kLanes + lane];
        mean[lane] += whitened_[i] * solved;
        explained[lane] += solved * solved;
      }
    for (std::size_t lane = 0; lane < here; ++lane)
      all[first + lane] = {mean[lane], std::sqrt(signal_ * std::max(1 - explained[lane], 1e-12))};
  }
  return all;
}

std::vector<double> GaussianProcess::means(const std::vector<std::vector<double>>& points) const {
  std::vector<double> weights = whitened_, correlation(count_), all;
  backward(factor_.data(), count_, weights.data());
  all.reserve(points.size());
  for (const std::vector<double>& point : points) {
    row(point.data(), correlation.data());
    double sum = 0;
    for (std::size_t j = 0; j < count_; ++j) sum += weights[j] * correlation[j];
    all.push_back(sum);
  }
  return all;
}

std::vector<double> GaussianProcess::smoothed() const {
  // K (K + noise)^-1 y = y - noise (K + noise)^-1 y
  std::vector<double> weights = whitened_;
  backward(factor_.data(), count_, weights.data());
  const double noise = sim::det_exp(hyper_.log_noise);
  std::vector<double> means(count_);
  for (std::size_t i = 0; i < count_; ++i) means[i] = values_[i] - noise * weights[i];
  return means;
}

}  // namespace orrery::experiments::search
