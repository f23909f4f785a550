// What a job comes to over its histories, and the figures of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/base/figure_table.hpp"
#include "experiments/job/play.hpp"

namespace orrery::experiments::job {

/// Means over histories.
struct JobOutcome {
  JobTimes times;
  JobSeconds seconds;
  double wall_s = 0, steps = 0, runs = 0, failures = 0, rollbacks = 0, checkpoints = 0, down_s = 0, recoveries = 0;
  double done = 0;  ///< share of histories in which job.steps were reached
  std::vector<double> by_component;
  std::vector<double> ettr;         ///< of each history, sorted
  double mttf_s = 0;                ///< by the rates; 0 where failures are a trace's
  double exact = 0, published = 0;  ///< closed forms of ETTR
  std::int64_t events = 0;
  double mean_ettr() const { return seconds.productive / wall_s; }
};

/// Plays all histories; `tell` hears the first one.
JobOutcome play_all(const JobConfig& config, const JobShape& shape, const std::function<void(const JobEvent&)>& tell);

/// The figures of a job; `done` is none where the job has no end.
std::vector<FigureInfo> job_figures();
sim::Node job_summary(const JobConfig& config, const JobShape& shape, const JobOutcome& outcome);

}  // namespace orrery::experiments::job
