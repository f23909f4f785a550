#include "policies/placement/slapo_tune.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace orrery::policies::slapo {
namespace {

/// Points that were tried, and what must fail because less failed.
class Trials {
 public:
  Trials(const TuneSpace& space, const Evaluate& evaluate, bool error_stop)
      : space_(space), evaluate_(evaluate), error_stop_(error_stop) {}

  std::optional<double> at(const GridPoint& point) {
    const auto known = values_.find(point);
    if (known != values_.end()) return known->second;
    if (error_stop_ && std::any_of(failed_.begin(), failed_.end(),
                                   [&](const GridPoint& less) { return demands_no_less(point, less); }))
      return std::nullopt;
    const std::optional<double> value = evaluate_(point);
    values_.emplace(point, value);
    ++result_.evaluations;
    if (!value) {
      ++result_.failures;
      failed_.push_back(point);
    } else if (!result_.value || *value > *result_.value) {
      result_.value = value;
      result_.best = point;
      result_.evaluations_to_best = result_.evaluations;
    }
    return value;
  }

  const TuneResult& result() const { return result_; }

 private:
  bool demands_no_less(const GridPoint& point, const GridPoint& than) const {
    for (std::size_t axis = 0; axis < point.size(); ++axis) {
      const std::int64_t more = (point[axis] - than[axis]) * space_.demand[axis];
      if (space_.demand[axis] == 0 ? point[axis] != than[axis] : more < 0) return false;
    }
    return true;
  }

  const TuneSpace& space_;
  const Evaluate& evaluate_;
  bool error_stop_;
  std::map<GridPoint, std::optional<double>> values_;
  std::vector<GridPoint> failed_;
  TuneResult result_;
};

/// Walks from `point` along an axis in one direction while values do not fall; true if it moved.
bool walk(Trials& trials, const TuneSpace& space, GridPoint& point, std::size_t axis, std::int64_t step,
          double tolerance) {
  std::optional<double> best = trials.at(point);
  bool moved = false;
  for (GridPoint next = point; next[axis] + step >= 0 && next[axis] + step < space.sizes[axis];) {
    next[axis] += step;
    const std::optional<double> value = trials.at(next);
    if (!value || (best && *value < *best * (1 - tolerance))) break;
    if (best && *value <= *best) continue;  // level ground: on, but it is no better place
    point = next;
    best = value;
    moved = true;
  }
  return moved;
}

/// The point that demands least: where a search that stops at errors begins.
GridPoint least_demand(const TuneSpace& space) {
  GridPoint point(space.sizes.size(), 0);
  for (std::size_t axis = 0; axis < point.size(); ++axis)
    if (space.demand[axis] < 0) point[axis] = space.sizes[axis] - 1;
  return point;
}

}  // namespace

TuneResult coordinate_descent(const TuneSpace& space, const Evaluate& evaluate, const TuneOptions& options,
                              sim::RandomStream random) {
  Trials trials(space, evaluate, options.error_stop);
  std::vector<std::size_t> axes(space.sizes.size());
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  for (std::int64_t descent = 0; descent < options.restarts; ++descent) {
    GridPoint point = least_demand(space);
    if (descent > 0)
      for (std::size_t axis = 0; axis < point.size(); ++axis)
        point[axis] = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(space.sizes[axis])));
    if (!trials.at(point)) continue;
    for (bool moved = true; moved;) {
      moved = false;
      random.shuffle(std::span(axes));
      for (const std::size_t axis : axes)
        for (const std::int64_t step : {1, -1})
          moved = walk(trials, space, point, axis, step, options.tolerance) || moved;
    }
  }
  return trials.result();
}

TuneResult exhaustive(const TuneSpace& space, const Evaluate& evaluate, bool error_stop) {
  Trials trials(space, evaluate, error_stop);
  // From the least demand on, so that what fails spares what demands more.
  GridPoint count(space.sizes.size(), 0);
  while (true) {
    GridPoint point = count;
    for (std::size_t axis = 0; axis < point.size(); ++axis)
      if (space.demand[axis] < 0) point[axis] = space.sizes[axis] - 1 - point[axis];
    static_cast<void>(trials.at(point));
    std::size_t axis = count.size();
    while (axis > 0 && ++count[axis - 1] == space.sizes[axis - 1]) count[--axis] = 0;
    if (axis == 0) return trials.result();
  }
}

}  // namespace orrery::policies::slapo
