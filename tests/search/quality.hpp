// How good a driver gets on a test function: medians and quartiles over seeds.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/search/analysis/front.hpp"
#include "experiments/search/problems.hpp"
#include "experiments/search/unique.hpp"
#include "spaces.hpp"

namespace orrery::experiments::search::test {

struct Effort {
  std::int64_t budget = 1000;
  std::size_t batch = 8;
  int seeds = 7;
};

/// All trials of one search on one thread.
inline std::vector<Trial> search_problem(const Problem& problem, const std::string& driver, const std::string& params,
                                         const Effort& effort, std::uint64_t seed) {
  DriverSetup setup{.space = &problem.space,
                    .objectives = problem.objectives,
                    .limits = problem.limits,
                    .budget = effort.budget,
                    .random = sim::RandomStream(seed, "driver"),
                    .remedies = problem.remedies};
  UniqueDriver unique(make_driver(driver, std::move(setup), params), problem.space, {seed, "unique"});
  return run_search(unique, on_threads(problem.evaluate, 1), {.budget = effort.budget, .batch = effort.batch});
}

/// Area that points dominate, up to the reference; two objectives, feasible points only.
inline double area_of(std::vector<std::vector<double>> points, const std::vector<double>& reference) {
  std::sort(points.begin(), points.end());
  double area = 0, ceiling = reference[1];
  for (const auto& point : points) {
    if (point[0] >= reference[0] || point[1] >= ceiling) continue;
    area += (reference[0] - point[0]) * (ceiling - point[1]);
    ceiling = point[1];
  }
  return area;
}

/// Share of the true front's hypervolume that the trials reach.
inline double area_share(const Problem& problem, const std::vector<Trial>& trials) {
  std::vector<std::vector<double>> points;
  for (const Trial& trial : trials)
    if (trial.result.feasible()) points.push_back(trial.result.objectives);
  if (problem.volume) return hypervolume(std::move(points), problem.reference) / *problem.volume;
  return area_of(std::move(points), problem.reference) / area_of(problem.front(20'000), problem.reference);
}

/// Best feasible objective at full fidelity; infinite if there is none.
inline double best_of(const std::vector<Trial>& trials) {
  double best = std::numeric_limits<double>::infinity();
  for (const Trial& trial : trials)
    if (trial.result.feasible() && trial.proposal.fidelity == 1) best = std::min(best, trial.result.objectives[0]);
  return best;
}

struct Quality {
  double low = 0, median = 0, high = 0;  ///< quartiles over seeds
};

/// Quartiles by linear interpolation.
inline Quality quartiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto i = static_cast<std::size_t>(place);
    if (i + 1 == values.size()) return values[i];
    return values[i] + (place - static_cast<double>(i)) * (values[i + 1] - values[i]);
  };
  return {at(0.25), at(0.5), at(0.75)};
}

/// Over seeds: the best value above the optimum (one objective), or the share of hypervolume.
inline Quality quality(const std::string& problem_name, const std::string& driver, const std::string& params,
                       const Effort& effort, std::size_t dimensions = 0) {
  const Problem problem = make_problem(problem_name, dimensions);
  std::vector<double> values;
  for (int seed = 1; seed <= effort.seeds; ++seed) {
    const auto trials = search_problem(problem, driver, params, effort, static_cast<std::uint64_t>(seed));
    values.push_back(problem.objectives >= 2 ? area_share(problem, trials)
                                             : best_of(trials) - problem.optimum.value_or(0));
  }
  return quartiles(std::move(values));
}

inline std::string text_of(const Quality& q) {
  return fmt::format("{:.3g} ({:.3g} … {:.3g})", q.median, q.low, q.high);
}

}  // namespace orrery::experiments::search::test
