#include "experiments/search/analysis/front.hpp"

#include <algorithm>
#include <limits>

namespace orrery::experiments::search {
namespace {

using Points = std::vector<std::vector<double>>;

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

std::vector<std::size_t> pareto_front(std::span<const Trial> trials) {
  std::vector<std::size_t> front;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    if (!counts(trials[i])) continue;
    const auto& mine = trials[i].result.objectives;
    const auto is_covered = [&](std::size_t other) { return covers(trials[other].result.objectives, mine); };
    if (std::any_of(front.begin(), front.end(), is_covered)) continue;
    std::erase_if(front, [&](std::size_t other) { return covers(mine, trials[other].result.objectives); });
    front.push_back(i);
  }
  return front;
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
  Points front;
  double volume = 0;
  for (const Trial& trial : trials) {
    if (counts(trial)) {
      const auto& point = trial.result.objectives;
      const bool adds =
          std::none_of(front.begin(), front.end(), [&](const auto& other) { return covers(other, point); });
      if (adds) {
        std::erase_if(front, [&](const auto& other) { return covers(point, other); });
        front.push_back(point);
        volume = hypervolume(front, reference);
      }
    }
    history.push_back(volume);
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
