#include "experiments/search/process/gp_points.hpp"

#include <algorithm>
#include <cmath>

#include "experiments/search/process/gp_likelihood.hpp"
#include "sim/base/avx2.hpp"

namespace orrery::experiments::search {
namespace {

constexpr double kHalf = 0.5;          // how far a number that does not count stands from the middle of those that do
constexpr double kLeastPivot = 1e-10;  // of a correlation matrix with ones on its diagonal

/// Adds the square of the scaled distance from each number of a column.
ORRERY_ALSO_AVX2 void add_squares(const double* column, std::size_t n, double own, double scale, double* out) {
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

std::vector<double> GpPoints::at(std::size_t index) const {
  std::vector<double> point;
  for (const std::vector<double>& column : columns_) point.push_back(column[index]);
  return point;
}

void GpPoints::correlate(const GpKernel& kernel, const double* place, double* out) const {
  std::fill(out, out + count_, 0.0);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const double *column = columns_[c].data(), own = place[c], scale = kernel.scale[c];
    if (!kernel.inputs->category(c)) {
      add_squares(column, count_, own, scale, out);
      continue;
    }
    for (std::size_t j = 0; j < count_; ++j) out[j] += own != column[j] ? scale * scale : 0.0;
  }
  static thread_local MaternDecays decays;  // its buffers
  matern52(out, count_, decays);
}

void GpPoints::append(const GpKernel& kernel, const double* point) {
  const std::size_t start = factor_.size(), n = count_;
  columns_.resize(kernel.scale.size());
  factor_.resize(start + n + 1);
  double* line = factor_.data() + start;
  correlate(kernel, point, line);
  extend_factor(factor_.data(), n, line, 1 + kernel.noise, kLeastPivot);
  for (std::size_t c = 0; c < columns_.size(); ++c) columns_[c].push_back(point[c]);
  ++count_;
}

void GpPoints::shrink(std::size_t n) {
  count_ = std::min(count_, n);
  for (std::vector<double>& column : columns_) column.resize(count_);
  factor_.resize(count_ * (count_ + 1) / 2);
}

}  // namespace orrery::experiments::search
