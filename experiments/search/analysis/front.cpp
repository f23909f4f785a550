#include "experiments/search/analysis/front.hpp"

#include <algorithm>
#include <limits>

#include "experiments/search/sobol.hpp"

namespace orrery::experiments::search {
namespace {

using Points = std::vector<std::vector<double>>;
constexpr std::size_t kFewPoints = 16;  ///< whose volume is exact for any number of objectives

bool counts(const Trial& trial) {
  return trial.result.feasible() && trial.proposal.fidelity == 1;
}

/// Whether a is no worse than b everywhere.
bool covers(const std::vector<double>& a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] > b[i]) return false;
  return true;
}

/// Points that no other covers; of equal ones one.
Points without_covered(const Points& points) {
  Points kept;
  for (const auto& point : points) {
    if (std::any_of(kept.begin(), kept.end(), [&](const auto& other) { return covers(other, point); })) continue;
    std::erase_if(kept, [&](const auto& other) { return covers(point, other); });
    kept.push_back(point);
  }
  return kept;
}

double area(Points points, std::span<const double> reference) {
  std::sort(points.begin(), points.end());
  double sum = 0, level = reference[1];
  for (const auto& point : points) {
    if (point[1] >= level) continue;
    sum += (reference[0] - point[0]) * (level - point[1]);
    level = point[1];
  }
  return sum;
}

/// Slices along the last objective, each as thick as the gap to the next point.
double volume_of_three(Points points, std::span<const double> reference) {
  std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a[2] < b[2]; });
  Points below;  // by rising first and falling second objective
  double sum = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    below.push_back({points[i][0], points[i][1]});
    below = without_covered(below);
    const double next = i + 1 < points.size() ? points[i + 1][2] : reference[2];
    if (next > points[i][2]) sum += area(below, reference) * (next - points[i][2]);
  }
  return sum;
}

double box(const std::vector<double>& point, std::span<const double> reference) {
  double volume = 1;
  for (std::size_t i = 0; i < point.size(); ++i) volume *= reference[i] - point[i];
  return volume;
}

/// Points spread evenly over a box.
Points samples_between(std::span<const double> low, std::span<const double> high) {
  SobolSequence sequence(low.size(), true, 1);
  Points samples;
  samples.reserve(kVolumeSamples);
  for (std::size_t i = 0; i < kVolumeSamples; ++i) {
    samples.push_back(sequence.next());
    for (std::size_t m = 0; m < low.size(); ++m) samples.back()[m] = low[m] + samples.back()[m] * (high[m] - low[m]);
  }
  return samples;
}

/// The share of a box of samples that some point dominates, times its volume.
double sampled_volume(const Points& points, std::span<const double> reference) {
  std::vector<double> low = points[0];
  for (const auto& point : points)
    for (std::size_t m = 0; m < low.size(); ++m) low[m] = std::min(low[m], point[m]);
  std::size_t dominated = 0;
  for (const auto& sample : samples_between(low, reference))
    dominated +=
        std::any_of(points.begin(), points.end(), [&](const auto& one) { return covers(one, sample); }) ? 1 : 0;
  return box(low, reference) * static_cast<double>(dominated) / static_cast<double>(kVolumeSamples);
}

/// Sum over points of what each dominates beyond those after it.
double volume_of_many(const Points& points, std::span<const double> reference) {
  if (points.size() > 1 && reference.size() == 3) return volume_of_three(points, reference);
  double sum = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    Points limited;
    for (std::size_t j = i + 1; j < points.size(); ++j) {
      limited.push_back(points[j]);
      for (std::size_t m = 0; m < reference.size(); ++m) limited.back()[m] = std::max(points[i][m], points[j][m]);
    }
    sum += box(points[i], reference) - volume_of_many(without_covered(limited), reference);
  }
  return sum;
}

}  // namespace

Front::Front(std::vector<double> reference, const std::vector<double>& low) : reference_(std::move(reference)) {
  if (!sampled()) return;
  samples_ = samples_between(low, reference_);
  sample_volume_ = box(low, reference_) / static_cast<double>(samples_.size());
}

bool Front::add(const std::vector<double>& point) {
  return reference_.size() == 2 ? add_to_stairs(point[0], point[1]) : add_to_points(point);
}

bool Front::add_to_stairs(double x, double y) {
  auto next = stairs_.upper_bound(x);
  // Of those no further right, the last is the lowest.
  double above = reference_[1];
  if (next != stairs_.begin()) {
    const auto before = std::prev(next);
    if (before->second <= y) return false;
    above = std::min(above, before->second);
    if (before->first == x) next = before;
  }
  // New area: from x to the right, under the stairs as they were and over y, step by step.
  double left = x;
  while (next != stairs_.end() && next->second >= y) {
    const double right = std::min(next->first, reference_[0]);
    if (right > left && above > y) volume_ += (right - left) * (above - y);
    left = std::max(left, right);
    above = std::min(above, next->second);
    next = stairs_.erase(next);
  }
  const double right = next == stairs_.end() ? reference_[0] : std::min(next->first, reference_[0]);
  if (right > left && above > y) volume_ += (right - left) * (above - y);
  stairs_.emplace_hint(next, x, y);
  return true;
}

bool Front::add_to_points(const std::vector<double>& point) {
  if (std::any_of(points_.begin(), points_.end(), [&](const auto& other) { return covers(other, point); }))
    return false;
  const auto inside = [&](const std::vector<double>& one) {
    return std::equal(one.begin(), one.end(), reference_.begin(), [](double x, double limit) { return x < limit; });
  };
  if (sampled()) {
    volume_ += sample_volume_ *
               static_cast<double>(std::erase_if(samples_, [&](const auto& sample) { return covers(point, sample); }));
  } else if (inside(point)) {
    Points limited;
    for (const auto& other : points_) {
      if (!inside(other)) continue;
      limited.push_back(other);
      for (std::size_t m = 0; m < point.size(); ++m) limited.back()[m] = std::max(other[m], point[m]);
    }
    volume_ += box(point, reference_) - hypervolume(std::move(limited), reference_);
  }
  std::erase_if(points_, [&](const auto& other) { return covers(point, other); });
  points_.push_back(point);
  return true;
}

std::vector<std::size_t> pareto_front(std::span<const Trial> trials) {
  std::vector<std::size_t> front;
  for (std::size_t i = 0; i < trials.size(); ++i)
    if (counts(trials[i])) front.push_back(i);
  if (front.empty()) return front;
  const auto of = [&](std::size_t i) -> const std::vector<double>& { return trials[i].result.objectives; };
  // Whoever covers another comes first; of equal ones the earlier.
  std::stable_sort(front.begin(), front.end(), [&](std::size_t a, std::size_t b) {
    return std::lexicographical_compare(of(a).begin(), of(a).end(), of(b).begin(), of(b).end());
  });
  std::vector<std::size_t> kept;
  const bool two = of(front[0]).size() <= 2;
  for (const std::size_t i : front) {
    const auto is_covered = [&](std::size_t other) { return covers(of(other), of(i)); };
    const std::size_t from =
        two && !kept.empty() ? kept.size() - 1 : 0;  // of two objectives the last has the least second
    if (std::none_of(kept.begin() + static_cast<std::ptrdiff_t>(from), kept.end(), is_covered)) kept.push_back(i);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

double hypervolume(std::vector<std::vector<double>> points, std::span<const double> reference) {
  std::erase_if(points, [&](const auto& point) {
    for (std::size_t i = 0; i < reference.size(); ++i)
      if (!(point[i] < reference[i])) return true;
    return false;
  });
  if (points.empty() || reference.empty()) return 0;
  if (reference.size() == 2) return area(std::move(points), reference);
  points = without_covered(points);
  if (reference.size() == 1) return reference[0] - points[0][0];
  if (reference.size() > kExactObjectives && points.size() > kFewPoints) return sampled_volume(points, reference);
  return volume_of_many(points, reference);
}

std::optional<std::vector<double>> reference_behind(std::span<const Trial> trials) {
  std::vector<std::size_t> some = pareto_front(trials);
  if (some.empty()) return std::nullopt;
  if (some.size() == 1) {
    some.clear();
    for (std::size_t i = 0; i < trials.size(); ++i)
      if (counts(trials[i])) some.push_back(i);
  }
  std::vector<double> low = trials[some[0]].result.objectives, high = low;
  for (const std::size_t i : some)
    for (std::size_t m = 0; m < low.size(); ++m) {
      low[m] = std::min(low[m], trials[i].result.objectives[m]);
      high[m] = std::max(high[m], trials[i].result.objectives[m]);
    }
  for (std::size_t m = 0; m < low.size(); ++m) {
    const double range = high[m] - low[m];
    high[m] += 0.1 * (range > 0 ? range : std::max(1.0, high[m] < 0 ? -high[m] : high[m]));
  }
  return high;
}

std::vector<double> hypervolume_history(std::span<const Trial> trials, std::span<const double> reference) {
  std::vector<double> history;
  std::vector<double> low(reference.begin(), reference.end());
  for (const Trial& trial : trials)
    for (std::size_t m = 0; counts(trial) && m < low.size(); ++m) low[m] = std::min(low[m], trial.result.objectives[m]);
  Front front({reference.begin(), reference.end()}, low);
  for (const Trial& trial : trials) {
    if (counts(trial)) front.add(trial.result.objectives);
    history.push_back(front.volume());
  }
  return history;
}

std::vector<double> best_so_far(std::span<const Trial> trials, std::size_t objective) {
  std::vector<double> history;
  double best = std::numeric_limits<double>::infinity();
  for (const Trial& trial : trials) {
    if (counts(trial)) best = std::min(best, trial.result.objectives[objective]);
    history.push_back(best);
  }
  return history;
}

std::vector<double> simple_regret(std::span<const Trial> trials, double optimum, std::size_t objective) {
  std::vector<double> history = best_so_far(trials, objective);
  for (double& value : history) value -= optimum;
  return history;
}

}  // namespace orrery::experiments::search
