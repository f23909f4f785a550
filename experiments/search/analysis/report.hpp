// The whole analysis of some trials, as text and as JSON.
#pragma once

#include "experiments/search/analysis/importance.hpp"
#include "sim/base/document.hpp"
#include "sim/base/units.hpp"

namespace orrery::experiments::search {

/// An objective as its user knows it.
struct Goal {
  std::string name;
  bool maximise = false;  ///< trials hold it with the sign turned; texts and JSON turn it back
  sim::Unit unit = sim::Unit::none;
  /// The user's value of a trial's.
  double shown(double minimised) const { return maximise ? 0 - minimised : minimised; }
};

struct ObjectiveReport {
  Goal goal;
  std::vector<double> best_so_far;  ///< after each trial, minimised
  Importance importance;
  std::vector<Elementary> effects;
};

struct AnalysisReport {
  std::size_t trials = 0, feasible = 0, over_a_limit = 0, infeasible = 0, failed = 0;
  std::vector<std::size_t> front;  ///< indices of trials
  std::vector<double>
      reference;                ///< what the volume is measured against, minimised; empty for one objective or no front
  std::vector<double> volumes;  ///< after each trial
  std::vector<ObjectiveReport> objectives;
};

/// Of trials of one space, all of whose objectives are minimised.
AnalysisReport analyse(const Space& space, std::span<const Trial> trials, const std::vector<Goal>& goals,
                       const ImportanceOptions& options = {});
/// For people: counts, the front, when progress was made, parameters by importance. `most` rows a table.
std::string analysis_text(const AnalysisReport& report, const Space& space, std::span<const Trial> trials,
                          std::size_t most = 12);
sim::Node analysis_json(const AnalysisReport& report, const Space& space, std::span<const Trial> trials);

}  // namespace orrery::experiments::search
