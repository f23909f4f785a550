#include "experiments/search/process/gp_learner.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/math.hpp"

namespace orrery::experiments::search {
namespace {

constexpr int kSteps = 25, kFewSteps = 8;  // of a fit; few where the lengths are known well from many points

}  // namespace

void GpLearner::learn(const std::vector<std::vector<double>>& points, std::vector<double> values) {
  const std::size_t n = points.size();
  values_ = std::move(values);
  if (n >= due_) {
    process_.fit(points, values_, n <= GaussianProcess::kFitPoints ? kSteps : kFewSteps);
    due_ = n + 1 + static_cast<std::size_t>(refit_ * double(n));
  } else {
    for (std::size_t i = process_.size(); i < n; ++i) process_.append(points[i]);
    process_.observe(values_);
  }
  taught_ = n;
}

void GpLearner::believe(const std::vector<double>& point) {
  values_.push_back(process_.predict({point})[0].mean);
  process_.append(point);
  process_.observe(values_);
}

void GpLearner::forget_beliefs() {
  if (values_.size() == taught_) return;
  values_.resize(taught_);
  process_.shrink(taught_);
  process_.observe(values_);
}

std::vector<double> met_labels(const std::vector<double>& margins) {
  std::vector<double> sizes;
  bool over = false, room = false;
  for (const double margin : margins) {
    over = over || margin > 0;
    room = room || margin < 0;
  }
  if (!over) return {};
  for (const double margin : margins)
    if (room ? margin != 0 : margin > 0) sizes.push_back(std::abs(margin));
  std::sort(sizes.begin(), sizes.end());
  const double usual = sizes[sizes.size() / 2];
  std::vector<double> labels;
  for (const double margin : margins)
    if (room)
      labels.push_back((margin > 0 ? -1 : 1) * sim::det_log1p(std::abs(margin) / usual));
    else
      labels.push_back(margin > 0 ? -std::clamp(margin / usual, 0.25, 2.0) : 1.0);
  return labels;
}

}  // namespace orrery::experiments::search
