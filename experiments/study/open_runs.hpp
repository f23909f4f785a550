// Runs of points that are out: read, numbered, handed on, stored when their results come. Equal configs have one run.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/search/driver.hpp"
#include "experiments/study/explore.hpp"

namespace orrery::experiments::study {

/// Which measures runs had so far, and what is there instead of those that none had.
class SeenMeasures {
 public:
  explicit SeenMeasures(std::size_t measures) : absent_(measures), present_(measures) {}
  /// Figures that are known; NaN: it is not there.
  void note(std::span<const double> figures);
  /// Of a run that was made: RunOutcome::absent.
  void note_made(std::span<const std::string> absent);
  /// Whether a run that was made had a result.
  bool any() const { return any_; }
  /// Where the look-up of a measure that no run had ended; empty: one had it.
  std::string missing(std::size_t measure) const;

 private:
  std::vector<std::string> absent_;
  std::vector<bool> present_;
  bool any_ = false;
};

struct OpenRun {
  PreparedRun prepared;
  std::int64_t id = 0;
  std::optional<RunResult> result;
  std::optional<std::vector<std::string>> absent;  ///< RunOutcome's, of one that was made and not noted yet
  /// Whether its result has come, or its config was refused.
  bool ready() const { return prepared.key.empty() || result; }
};

class OpenRuns {
 public:
  using Shared = std::shared_ptr<OpenRun>;
  /// All outlive it. Throws sim::ConfigError if an input has changed since the store was begun.
  OpenRuns(const Study& study, Store& store, WorkerPool& pool, const ExploreOptions& options);

  /// Runs of other stores by key, which need not be made again; must outlive this.
  void set_earlier(const std::map<std::string, RunResult>& runs) { earlier_ = &runs; }
  /// Begins what points need: the runs of their seeds, one point after the other.
  std::vector<Shared> begin(std::span<const search::Proposal> proposals);
  /// Waits until some are ready. Throws Stopped once the user stops the study, after what was done has been committed.
  void wait();
  /// A point is done with its runs: what they had is noted, and no more of them is kept than others need.
  void release(std::span<const Shared> runs);

  std::int64_t made() const { return made_; }
  SeenMeasures& seen() { return seen_; }
  const SeenMeasures& seen() const { return seen_; }

 private:
  std::vector<PreparedRun> prepare(std::span<const search::Proposal> proposals);
  Shared numbered(PreparedRun prepared);
  void take_earlier(OpenRun& run);
  void check_inputs(const PreparedRun& run);

  const Study& study_;
  Store& store_;
  WorkerPool& pool_;
  const std::map<std::string, RunResult>* earlier_ = nullptr;
  bool elsewhere_ = false;  ///< made by other processes
  InputDigests digests_;
  std::vector<RunEnd> ends_;
  std::map<std::string, std::string> stored_inputs_;
  std::map<std::string, Shared> of_key_;  ///< of points that are out
  std::map<std::int64_t, Shared> out_;    ///< by number: those without a result
  std::int64_t next_ = 1, made_ = 0;
  SeenMeasures seen_;
  std::unique_ptr<LocalExecutor> local_;
  Executor& executor_;  // last: runs that are out end before what they use goes
};

}  // namespace orrery::experiments::study
