// From proposals to rows: runs, figures over seeds, verdicts of the formulas.
#pragma once

#include <deque>

#include "experiments/search/search.hpp"
#include "experiments/study/open_runs.hpp"

namespace orrery::experiments::study {

/// Runs and judges proposals, and stores points in the order in which they came.
class Evaluator final : public search::Evaluations {
 public:
  Evaluator(const Study& study, Store& store, WorkerPool& pool, const ExploreOptions& options);

  /// Runs of other stores by key, which need not be made again; must outlive this.
  void set_earlier(const std::map<std::string, RunResult>& runs) { runs_.set_earlier(runs); }
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
  std::int64_t runs() const { return runs_.made(); }
  /// Measures that no run had, each with what is there instead.
  std::vector<std::string> absent() const;
  /// Called when a point is done.
  std::function<void()> on_point;

 private:
  /// A point that is out, and the runs of its seeds.
  struct OpenPoint {
    std::int64_t id = 0;
    search::Proposal proposal;
    std::vector<OpenRuns::Shared> runs;
  };
  PointRow row_of(const OpenPoint& point, search::Evaluation& verdict) const;
  std::vector<double> measured(const OpenPoint& point) const;
  bool decides(std::size_t measure) const;
  void check_figures();

  const Study& study_;
  Store& store_;
  std::filesystem::path out_;
  OpenRuns runs_;
  std::deque<OpenPoint> open_;
  std::int64_t repeat_ = 0, next_point_ = 1, known_points_ = 0;
  std::size_t unchecked_ = 0;  ///< points to take before figures are looked at
  bool any_ok_ = false;        ///< among the points taken since that was done last
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
