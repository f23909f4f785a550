#include "experiments/search/gp_learner.hpp"

#include <algorithm>

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

std::vector<double> met_labels(const std::vector<double>& violations) {
  std::vector<double> over;
  for (const double v : violations)
    if (v > 0) over.push_back(v);
  if (over.empty()) return {};
  std::sort(over.begin(), over.end());
  const double usual = over[over.size() / 2];
  std::vector<double> labels;
  for (const double v : violations) labels.push_back(v > 0 ? -std::clamp(v / usual, 0.25, 2.0) : 1.0);
  return labels;
}

}  // namespace orrery::experiments::search
