// Runs of a study: a config becomes an experiment with a key, the experiment becomes figures.
//
// This is the seam where another machine plugs in: whatever executes runs gets them with their keys and gives results
// back in any order (local_runs here, remote_runs.hpp over a pipe).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "experiments/base/parallel.hpp"
#include "experiments/study/store.hpp"
#include "experiments/study/study.hpp"

namespace orrery::experiments::study {

/// Digests of input files, each read once. For several threads.
class InputDigests {
 public:
  /// Throws sim::ConfigError if the file cannot be read.
  std::string of(const std::filesystem::path& file);

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> known_;
};

/// A config read.
struct PreparedRun {
  std::string key;  ///< hash of the resolved config and its inputs' content; empty if it was refused
  std::unique_ptr<Experiment> experiment;                   ///< null once it is a text, or its result is known
  std::string text;                                         ///< the resolved config, for runs elsewhere
  std::vector<std::pair<std::string, std::string>> inputs;  ///< files and digests
  std::vector<sim::Fault> faults;                           ///< why it was refused
};

/// Gives up the experiment for its text, which is smaller.
void become_text(PreparedRun& run);

/// Never throws for what is wrong with the config. `make` gives the experiment.
PreparedRun prepare_run(const std::function<std::unique_ptr<Experiment>()>& make, InputDigests& digests);

/// A result, and for each measure that the summary does not have: where the look-up ended (for messages).
struct RunOutcome {
  RunResult result;
  std::vector<std::string> absent;  ///< a measure each; empty: it is there
};

/// Runs and measures; what goes wrong is a failed result. `stop` (may be empty) ends it early: then nothing.
std::optional<RunOutcome> run_experiment(const Experiment& experiment, std::span<const Measure> measures,
                                         const std::function<bool()>& stop);

/// Runs experiments; calls done(i, outcome) for each as it ends, in any order, by one thread at a time. Those that are
/// left when `stop` says so are not done. What `done` throws ends it, and is thrown.
using ExecuteRuns = std::function<void(std::span<const PreparedRun* const> runs,
                                       const std::function<void(std::size_t, RunOutcome)>& done)>;

/// On threads of this process. Everything given must outlive it.
ExecuteRuns local_runs(WorkerPool& pool, std::span<const Measure> measures, std::function<bool()> stop);

}  // namespace orrery::experiments::study
