// Fronts, the volume that they dominate, and how both came about. Objectives are minimised.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "experiments/search/driver.hpp"

namespace orrery::experiments::search {

/// Indices of the feasible trials at full fidelity that no other such trial dominates, in order; of equal ones the
/// first.
std::vector<std::size_t> pareto_front(std::span<const Trial> trials);

/// Volume between points and reference: what at least one point dominates. Points that are not below the reference in
/// every objective add nothing. Exact: sweeps for two (O(n log n)) and three objectives (O(n^2)), else inclusion by
/// exclusive volumes (WFG; While, Bradstreet, Barone 2012), exponential in the objectives.
double hypervolume(std::vector<std::vector<double>> points, std::span<const double> reference);

/// A reference a tenth of the range behind the worst of the feasible trials' front (behind the worst feasible trial
/// where the front is one point); nothing if no trial is feasible.
std::optional<std::vector<double>> reference_behind(std::span<const Trial> trials);

/// Hypervolume of the feasible trials at full fidelity after each trial.
std::vector<double> hypervolume_history(std::span<const Trial> trials, std::span<const double> reference);

/// Least feasible value of an objective at full fidelity after each trial; infinite before the first.
std::vector<double> best_so_far(std::span<const Trial> trials, std::size_t objective = 0);
/// The same less the optimum (simple regret).
std::vector<double> simple_regret(std::span<const Trial> trials, double optimum, std::size_t objective = 0);

}  // namespace orrery::experiments::search
