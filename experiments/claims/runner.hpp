// Runs claim studies: every variant at every point of the grid is one experiment in memory, without files.
//
// Configs that are equal run once, also across studies; runs are spread over threads and collected in their order, so
// nothing depends on how many there are. All experiments are read before the first one runs: a fault stops everything
// and is reported where it stands in the study. A design that does not fit is a result; its figures are not there.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "experiments/claims/claim_study.hpp"

namespace orrery::experiments::claims {

/// What one run left: its summary, or why there is none.
struct RunResult {
  sim::Node summary;
  std::string reason;  ///< why it is not feasible; empty if it is
};

/// A study with its results, variant by variant, point by point.
struct StudyResult {
  ClaimStudy study;
  std::vector<std::shared_ptr<const RunResult>> runs;  ///< shared between equal configs

  const RunResult& run(std::size_t variant, std::size_t point) const { return *runs[variant * study.points() + point]; }
};

struct RunOptions {
  std::size_t jobs = 1;
  std::function<void(std::int64_t done, std::int64_t total)>
      progress;                     ///< called by one thread at a time; may be empty
  std::function<bool()> stop = {};  ///< asked by any thread; may be empty
};

/// Throws sim::ConfigError with the faults of all experiments, Stopped.
std::vector<StudyResult> run_studies(const Systems& systems, std::vector<ClaimStudy> studies,
                                     const RunOptions& options);

/// Reads the experiments of a study without running them. Throws as run_studies does.
void check_experiments(const Systems& systems, const ClaimStudy& study);

}  // namespace orrery::experiments::claims
