// From proposals to rows: configs, distinct runs, figures over seeds, verdicts of the formulas.
#pragma once

#include "experiments/search/search.hpp"
#include "experiments/study/explore.hpp"

namespace orrery::experiments::study {

class Evaluator {
 public:
  Evaluator(const Study& study, Store& store, WorkerPool& pool, const ExploreOptions& options);

  /// Runs of other stores by key, which need not be made again; must outlive this.
  void set_earlier(const std::map<std::string, RunResult>& runs) { earlier_ = &runs; }
  /// Which of the independent searches the points belong to.
  void set_repeat(std::int64_t repeat) { repeat_ = repeat; }
  /// What the store has of the next point in order. Throws sim::ConfigError if it has another point there.
  std::optional<search::Evaluation> known(const search::Proposal& proposal);
  /// Runs, judges and stores a batch. Throws Stopped when the user stops a study, after what was done has been
  /// committed.
  std::vector<search::Evaluation> evaluate(std::span<const search::Proposal> batch);

  std::int64_t points() const { return next_point_ - 1; }
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
  void prepare(std::span<const search::Proposal> batch);
  void number_runs();
  void take_earlier(Run& run);
  void execute();
  void check_inputs(const PreparedRun& run);
  PointRow row_of(const search::Proposal& proposal, std::size_t first, search::Evaluation& verdict);
  std::vector<double> measured(std::size_t first) const;
  bool decides(std::size_t measure) const;
  void check_figures(std::span<const search::Evaluation> results) const;

  const Study& study_;
  Store& store_;
  WorkerPool& pool_;
  const std::map<std::string, RunResult>* earlier_ = nullptr;
  std::filesystem::path out_;
  bool elsewhere_ = false;  ///< runs are made by other processes
  ExecuteRuns execute_;
  InputDigests digests_;
  std::map<std::string, std::string> stored_inputs_;
  std::vector<Run> batch_;                       ///< seeds of the first proposal, of the second …
  std::map<std::string, std::size_t> first_of_;  ///< key to place in batch_
  std::vector<std::string> absent_;              ///< by measure, as long as no run had it
  std::vector<bool> present_;
  std::int64_t repeat_ = 0, next_point_ = 1, next_run_ = 1, known_points_ = 0, runs_ = 0;
  bool any_result_ = false;
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
