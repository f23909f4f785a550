// What the stores of studies tell: each by itself (experiments/search/analysis) and side by side.
//
// Side by side they share one reference and one joint front, so that volumes compare. A store of several independent
// searches (`repeats`) has a history of each; its figures are medians and quartiles over them.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "experiments/study/trials.hpp"

namespace orrery::experiments::study {

/// One of a store's independent searches.
struct SearchHistory {
  std::vector<double> volumes;            ///< after each trial, against the common reference; empty: one objective
  std::vector<std::vector<double>> best;  ///< of each objective, after each trial, minimised
};

struct StoreAnalysis {
  StoredTrials stored;
  search::AnalysisReport report;
  std::vector<SearchHistory> searches;
  std::size_t of_joint_front = 0;  ///< points of the front of all stores that are this one's
};

struct StudyAnalysis {
  std::vector<StoreAnalysis> stores;
  std::vector<double> reference;  ///< behind the joint front, minimised; empty for one objective or no feasible point
  double joint_volume = 0;        ///< of all stores together
  std::size_t joint_front = 0;    ///< points of it
};

/// Analyses stores with the same objectives, of which the named ones count (none named: all). Throws sim::ConfigError
/// as read_trials does, and for a store with other objectives than the first.
StudyAnalysis analyse_stores(std::span<const std::filesystem::path> files, const std::vector<std::string>& objectives);

/// For people: a line a store where there are several, then each by itself; `most` rows a table.
std::string study_analysis_text(const StudyAnalysis& analysis, std::size_t most = 12);
/// The same with whole histories; `points`, the systems that studies are read with, adds every trial, what it sets in
/// which base, and the ticks of its parameters, as plots and reports need them.
sim::Node study_analysis_json(const StudyAnalysis& analysis, const Systems* points = nullptr);

}  // namespace orrery::experiments::study
