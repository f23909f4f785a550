// A store's rows as the trials of a search: points of its space again, objectives with the sign of what is minimised.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/search/analysis/report.hpp"
#include "experiments/study/results.hpp"
#include "experiments/study/study.hpp"

namespace orrery::experiments::study {

struct StoredTrials {
  std::filesystem::path file;
  std::string study;
  std::string driver;  ///< its name, or "sweep"
  search::Space space;
  std::vector<search::Goal> goals;
  std::vector<std::string> labels;  ///< of each goal, for an axis: "speed (throughput.output_tokens_per_s)"
  std::vector<search::Trial> trials;
  std::vector<std::int64_t> repeats;  ///< which of the independent searches each trial is of
  std::optional<Fidelity> fidelity;   ///< of the study, if it has shorter runs
  std::optional<Assignment> seed;     ///< of a point's first run, if the study gives seeds
};

/// The trials of a store, with the named objectives only (all if none is named). The space is read from the study that
/// the store holds, so nothing else needs to be there. Throws sim::ConfigError for a file that is no store, a store
/// without points or objectives, an objective that it does not have.
StoredTrials read_trials(StoreReader& store, const std::vector<std::string>& objectives);

/// The point of a space that a row of its store is of.
search::Point stored_point(const search::Space& space, std::span<const Column> columns, const PointRow& row);

}  // namespace orrery::experiments::study
