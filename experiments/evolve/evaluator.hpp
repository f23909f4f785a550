// Candidates and baselines at scenarios: configs, runs on threads, figures.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "experiments/evolve/evolve_study.hpp"

namespace orrery::experiments::evolve {

/// What one run gave: the figure and those of the bounds, or why there is none.
struct RunFigure {
  std::optional<double> value;
  std::vector<double> bounded;  ///< by bound; empty without a value
  std::string reason;
};

/// Figures of something at every scenario of a list.
using Figures = std::vector<RunFigure>;

class Evaluator {
 public:
  /// Borrows the study. `progress` is called by one thread at a time after every run; may be empty.
  /// So does `stop`, which is asked by any thread; then what is under way throws Stopped.
  Evaluator(const EvolveStudy& study, const Systems& systems, std::size_t jobs,
            std::function<void(std::int64_t runs)> progress, std::function<bool()> stop = {});

  /// Baselines at scenarios. Throws sim::ConfigError for faults of any of the experiments, and for a figure that the
  /// summaries do not have.
  std::vector<Figures> baselines(std::span<const Scenario> scenarios);
  /// Texts, which read_candidate() accepted, at scenarios; what goes wrong is a reason.
  std::vector<Figures> candidates(std::span<const std::string> texts, std::span<const Scenario> scenarios);

  std::int64_t runs() const { return runs_; }

 private:
  using Assignments = std::vector<Assignment>;
  std::vector<Figures> run_all(std::span<const Assignments> subjects, std::span<const Scenario> scenarios, bool strict);

  const EvolveStudy& study_;
  Systems systems_;
  std::size_t jobs_;
  std::function<void(std::int64_t)> progress_;
  std::function<bool()> stop_;
  std::int64_t runs_ = 0;
};

/// Reads the experiments of the base and the baselines without running them. Throws sim::ConfigError with their faults.
void check_experiments(const Systems& systems, const EvolveStudy& study);

/// Mean of the figures, the sign turned where more is better, so that less always is; nothing if one is not there.
std::optional<double> fitness_of(const EvolveStudy& study, std::span<const RunFigure> figures);

/// Means of the figures of bounds over runs; nothing if one is not there.
std::vector<std::optional<double>> bounded_means(const EvolveStudy& study, std::span<const RunFigure> figures);

/// By how much bounds are passed, as shares of them, summed; 0 within all. `baselines` are of the same runs.
double violation_of(const EvolveStudy& study, std::span<const RunFigure> figures,
                    std::span<const std::span<const RunFigure>> baselines);

}  // namespace orrery::experiments::evolve
