// Fronts, the volume that they dominate, and how both came about. Objectives are minimised.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "experiments/search/driver.hpp"

namespace orrery::experiments::search {

/// Indices of the feasible trials at full fidelity that no other such trial dominates, in order; of equal ones the
/// first.
std::vector<std::size_t> pareto_front(std::span<const Trial> trials);

/// Objectives of which volumes of any number of points are exact. Beyond them the work grows with the objectives' power
/// (100 points of eight objectives took 25 s): there kVolumeSamples points of Sobol's sequence between the ideal and
/// the reference are counted instead, to within some thousandths of that box.
inline constexpr std::size_t kExactObjectives = 5;
inline constexpr std::size_t kVolumeSamples = 1 << 16;

/// Points that no other covers (is no worse than everywhere), as they come in, and the volume that they dominate.
/// Two objectives: O(log n) a point, a staircase and the area under it. More: O(n) a point, and for one that adds its
/// exclusive volume; beyond kExactObjectives the samples that it is the first to dominate.
class Front {
 public:
  /// `reference` bounds the volume, and its size is the number of objectives. `low`: what no point is below, where the
  /// volume is sampled; may be empty elsewhere.
  explicit Front(std::vector<double> reference, const std::vector<double>& low = {});
  /// Whether no point so far covers it; those that it covers go.
  bool add(const std::vector<double>& point);
  /// As `hypervolume` of all points so far.
  double volume() const { return volume_; }

 private:
  bool add_to_stairs(double x, double y);
  bool add_to_points(const std::vector<double>& point);
  bool sampled() const { return reference_.size() > kExactObjectives; }

  std::vector<double> reference_;
  std::map<double, double> stairs_;  ///< of two objectives: the second by the first, falling
  std::vector<std::vector<double>> points_;
  std::vector<std::vector<double>> samples_;  ///< that no point dominates yet
  double sample_volume_ = 0, volume_ = 0;
};

/// Volume between points and reference: what at least one point dominates. Points that are not below the reference in
/// every objective add nothing. Exact: sweeps for two (O(n log n)) and three objectives (O(n^2)), else inclusion by
/// exclusive volumes (WFG; While, Bradstreet, Barone 2012), exponential in the objectives; of more than
/// kExactObjectives and more than a few points sampled.
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
