// The whole analysis of some trials, as text and as JSON.
#pragma once

#include "experiments/search/analysis/importance.hpp"
#include "sim/base/document.hpp"

namespace orrery::experiments::search {

struct ObjectiveReport {
  std::string name;
  std::vector<double> best_so_far;  ///< after each trial
  Importance importance;
  std::vector<Elementary> effects;
};

struct AnalysisReport {
  std::size_t trials = 0, feasible = 0, over_a_limit = 0, infeasible = 0, failed = 0;
  std::vector<std::size_t> front;  ///< indices of trials
  std::vector<double> reference;   ///< what the volume is measured against; empty for one objective or no front
  std::vector<double> volumes;     ///< after each trial
  std::vector<ObjectiveReport> objectives;
};

/// Of trials of one space; `names` are the objectives'. All objectives are minimised.
AnalysisReport analyse(const Space& space, std::span<const Trial> trials, const std::vector<std::string>& names,
                       const ImportanceOptions& options = {});
/// For people: counts, the front, when progress was made, parameters by importance. `most` rows a table.
std::string analysis_text(const AnalysisReport& report, const Space& space, std::span<const Trial> trials,
                          std::size_t most = 12);
sim::Node analysis_json(const AnalysisReport& report, const Space& space, std::span<const Trial> trials);

}  // namespace orrery::experiments::search
