// Runs of a study: a config becomes an experiment with a key, the experiment becomes figures.
//
// This is the seam where another machine plugs in: an Executor gets runs with their keys and gives results back in any
// order (LocalExecutor here, remote_runs.hpp over a pipe).
#pragma once

#include <atomic>
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

/// Never throws for what is wrong with the config. `make` gives the experiment. `ends`: when its run is to end before
/// its time, which is part of its key.
PreparedRun prepare_run(const std::function<std::unique_ptr<Experiment>()>& make, InputDigests& digests,
                        std::span<const RunEnd> ends = {});

/// A result, and for each measure that the summary does not have: where the look-up ended (for messages).
struct RunOutcome {
  RunResult result;
  std::vector<std::string> absent;  ///< a measure each; empty: it is there
};

/// What is looked at in a run.
struct RunGoals {
  std::vector<Measure> measures;
  std::vector<RunEnd> ends;  ///< when it ends before its time
};
/// Those of a study.
RunGoals goals_of(const Study& study);
/// Whether that is why a run or a point has no result of its own: its limits are judged by the figures so far, which
/// others that are not ok do not have. The reason is then reason_of() of Outcome::ended().
bool ended_early(std::string_view reason, std::span<const double> figures);

/// Runs and measures; what goes wrong is a failed result. `stop` (may be empty) ends it early: then nothing.
std::optional<RunOutcome> run_experiment(const Experiment& experiment, const RunGoals& goals,
                                         const std::function<bool()>& stop);

/// A run that is handed on, and what came of one; `id` is the caller's.
struct RunOrder {
  std::int64_t id = 0;
  const PreparedRun* run = nullptr;
};
struct RunDone {
  std::int64_t id = 0;
  RunOutcome outcome;
};

/// Where runs are made. For one thread.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Hands on runs at any time. They stay where they are until their results have come, or this has gone.
  virtual void start(std::span<const RunOrder> orders) = 0;
  /// Waits for results, and gives those that are there, in any order; none only once the user stops the study. Throws
  /// sim::ConfigError if none can come.
  virtual std::vector<RunDone> wait() = 0;
};

/// Threads of this process. The pool must outlive it.
class LocalExecutor final : public Executor {
 public:
  LocalExecutor(WorkerPool& pool, RunGoals goals, std::function<bool()> stop);
  /// Ends the runs that are out.
  ~LocalExecutor() override;
  LocalExecutor(const LocalExecutor&) = delete;
  LocalExecutor& operator=(const LocalExecutor&) = delete;
  void start(std::span<const RunOrder> orders) override;
  std::vector<RunDone> wait() override;

 private:
  void run(const RunOrder& order);

  WorkerPool& pool_;
  RunGoals goals_;
  std::function<bool()> stop_;  ///< the user's, or that nobody waits any more
  std::atomic<bool> dropped_{false};
  std::mutex mutex_;
  std::vector<RunDone> done_;
  std::size_t out_ = 0;
};

}  // namespace orrery::experiments::study
