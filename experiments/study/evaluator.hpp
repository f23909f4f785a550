// From proposals to rows: configs, distinct runs, figures over seeds, verdicts of the formulas.
#pragma once

#include <deque>

#include "experiments/search/search.hpp"
#include "experiments/study/explore.hpp"

namespace orrery::experiments::study {

/// Runs and judges proposals, and stores points in the order in which they came.
class Evaluator final : public search::Evaluations {
 public:
  Evaluator(const Study& study, Store& store, WorkerPool& pool, const ExploreOptions& options);

  /// Runs of other stores by key, which need not be made again; must outlive this.
  void set_earlier(const std::map<std::string, RunResult>& runs) { earlier_ = &runs; }
  /// Which of the independent searches the points belong to.
  void set_repeat(std::int64_t repeat) { repeat_ = repeat; }
  /// What the store has of the next point in order. Throws sim::ConfigError if it has another point there.
  std::optional<search::Evaluation> known(const search::Proposal& proposal);
  void submit(std::span<const search::Proposal> proposals) override;
  /// Judges and stores the oldest point that is out. Throws Stopped when the user stops a study, after what was done
  /// has been committed.
  search::Evaluation take() override;

  std::int64_t points() const { return next_point_ - 1 - std::ssize(open_); }
  std::int64_t known_points() const { return known_points_; }
  std::int64_t runs() const { return runs_; }
  /// Measures that no run had, each with what is there instead.
  std::vector<std::string> absent() const;
  /// Called when a point is done.
  std::function<void()> on_point;

 private:
  struct Run {
    PreparedRun prepared;
    std::int64_t id = 0;
    std::optional<RunResult> result;
  };
  /// A point that is out, and the runs of its seeds; equal configs have one run.
  struct OpenPoint {
    std::int64_t id = 0;
    search::Proposal proposal;
    std::vector<std::shared_ptr<Run>> runs;
  };
  std::vector<PreparedRun> prepare(std::span<const search::Proposal> proposals);
  std::shared_ptr<Run> numbered(PreparedRun prepared);
  void take_earlier(Run& run);
  void start_new_runs();
  void wait_for_runs();
  void check_inputs(const PreparedRun& run);
  PointRow row_of(const OpenPoint& point, search::Evaluation& verdict) const;
  std::vector<double> measured(const OpenPoint& point) const;
  bool decides(std::size_t measure) const;
  void check_figures();

  const Study& study_;
  Store& store_;
  WorkerPool& pool_;
  const std::map<std::string, RunResult>* earlier_ = nullptr;
  std::filesystem::path out_;
  bool elsewhere_ = false;  ///< runs are made by other processes
  InputDigests digests_;
  std::vector<RunEnd> ends_;
  std::map<std::string, std::string> stored_inputs_;
  std::deque<OpenPoint> open_;
  std::map<std::string, std::shared_ptr<Run>> of_key_;    ///< runs of points that are out
  std::map<std::int64_t, std::shared_ptr<Run>> running_;  ///< by number; those from `started_` on are to be started
  std::int64_t started_ = 1;
  std::vector<std::string> absent_;  ///< by measure, as long as no run had it
  std::vector<bool> present_;
  std::int64_t repeat_ = 0, next_point_ = 1, next_run_ = 1, known_points_ = 0, runs_ = 0;
  bool any_result_ = false;
  std::size_t unchecked_ = 0;  ///< points to take before figures are looked at
  bool any_ok_ = false;        ///< among the points taken since that was done last
  std::unique_ptr<LocalExecutor> local_;
  Executor& executor_;
};

/// Cells of a point's parameters and derived figures.
std::vector<Cell> parameter_cells(const Study& study, const Point& point);
/// What a row of a store says of a proposal. Throws sim::ConfigError if it is another point's.
search::Evaluation evaluation_of(const Study& study, const PointRow& row, const search::Proposal& proposal,
                                 std::int64_t repeat, const std::filesystem::path& store);
/// Judges the figures of a point whose `verdict` is ok so far, and fills everything in its row but identity and runs.
void judge_row(const Study& study, const search::Proposal& proposal, std::span<const double> figures,
               search::Evaluation& verdict, PointRow& row);

}  // namespace orrery::experiments::study
