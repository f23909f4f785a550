// Which of several candidates is best where every run of one differs by chance: runs more of each until it is known.
//
// Candidates are run with the same seeds, one more each a round. Of the mean difference of any two there is an interval
// that holds for all rounds at once, whatever the variance: where the Bayes factor of a unit-information prior against
// "no difference" passes 1 / error (Ville's inequality for the t statistic; Lai, On confidence sequences, 1976; Wang
// and Ramdas, Anytime-valid t-tests and confidence sequences, 2024). A candidate goes when it is surely worse than
// another; it ends when one is left, or when one is surely not worse than any other by more than a share that is said
// not to matter. So the answer is the best, or as good as that, with the confidence asked for, and clear cases take few
// runs. Limits hold for means, by the same interval of each margin; only a candidate known to meet them sends others
// away, and half of the chance of error goes to them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/search/driver.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments::search {

struct SelectionParams {
  std::string over = "replicate";
  double within = 0.01, confidence = 0.95;
  std::int64_t initial = 5;

  static constexpr auto fields() {
    using S = SelectionParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("over", &S::over, Unit::text, sim::any_value(),
                   "Parameter that only distinguishes runs of the same candidate, such as the seed; an integer."),
        sim::field("within", &S::within, Unit::ratio, sim::between(1e-6, 1),
                   "Difference that does not matter, as a share of the best mean (for a limit, of its bound)."),
        sim::field("confidence", &S::confidence, Unit::ratio, sim::between(0.5, 0.9999),
                   "Probability that the answer is the best candidate, or one as good as that."),
        sim::field("initial", &S::initial, Unit::count, sim::between(2, 1000),
                   "Runs of each candidate before any is eliminated.")};
  }
};

/// How a candidate stands.
enum class Standing : std::uint8_t {
  best,        ///< it is known
  within,      ///< of the best by what does not matter
  contending,  ///< nothing speaks against it yet; beside a best one: it is not known whether it meets the limits
  equal,       ///< to another in every run
  worse,       ///< than another, surely
  over,        ///< a limit is broken by the mean, surely
  not_run      ///< a run of it failed or did not fit
};
constexpr auto enum_names(Standing) {
  using enum Standing;
  return sim::names<Standing>({{"best", best},
                               {"within", within},
                               {"contending", contending},
                               {"equal", equal},
                               {"worse", worse},
                               {"over", over},
                               {"not_run", not_run}});
}

/// Mean of some runs, and half the width of its interval (infinite below two runs).
struct MeanInterval {
  double mean = 0, half = 0;
};

/// Mean and variance of a series as it comes (Welford 1962).
struct RunningMean {
  double count = 0, mean = 0, squares = 0;

  void add(double value) {
    const double before = value - mean;
    mean += before / ++count;
    squares += before * (value - mean);
  }
  double variance() const { return squares / (count - 1); }
};

/// Half the width of the interval that holds for every number of runs at once with at most this chance of error:
/// infinite while there are too few runs.
double anytime_half_width(const RunningMean& series, double error);

class Selection {
 public:
  Selection(std::size_t candidates, std::size_t limits, const SelectionParams& params);

  /// The next run of a candidate, in the order of seeds. Only the first objective counts.
  void hear(std::size_t candidate, const Evaluation& result);
  /// Whether it may still come out as the best, and more runs of it are of use.
  bool wants(std::size_t candidate) const { return standing(candidate) == Standing::contending; }
  /// The best is known, or that there is none.
  bool decided() const { return decided_; }

  std::size_t size() const { return all_.size(); }
  Standing standing(std::size_t candidate) const { return all_[candidate].standing; }
  /// The candidate that sent it away, of one that is over a limit the limit; else itself.
  std::size_t sent_away_by(std::size_t candidate) const { return all_[candidate].by; }
  std::int64_t runs(std::size_t candidate) const { return std::ssize(all_[candidate].values); }
  /// Why it did not run.
  const std::string& reason(std::size_t candidate) const { return all_[candidate].reason; }
  /// Of its runs; intervals by Student's t.
  MeanInterval mean(std::size_t candidate) const;
  /// Of the runs' margins to a limit.
  double mean_margin(std::size_t candidate, std::size_t limit) const;
  /// Of a candidate less another, over the seeds that both have run.
  MeanInterval difference(std::size_t candidate, std::size_t other) const;
  /// Candidates in the order of Standing, each group by its mean.
  std::vector<std::size_t> order() const;

 private:
  struct Candidate {
    std::vector<double> values;
    std::vector<std::vector<double>> margins;  ///< of a limit, by run
    std::vector<RunningMean> limits;           ///< the same up to the round
    std::vector<char> met;                     ///< limits known to be met
    double sum = 0;
    Standing standing = Standing::contending;
    std::size_t by = 0;
    std::string reason;
  };
  bool contends(std::size_t candidate) const { return all_[candidate].standing == Standing::contending; }
  bool round_is_complete() const;
  void advance();
  void judge_limits(std::size_t candidate);
  bool meets(const Candidate& one) const;
  void send_away();
  void end_where_known();
  /// The least that the mean of `candidate` less that of `other` may surely be.
  double least_difference(std::size_t candidate, std::size_t other) const;

  SelectionParams params_;
  std::vector<Candidate> all_;
  std::int64_t round_ = 0;              ///< runs of each that were weighed
  double error_ = 0, limit_error_ = 0;  ///< chances of error of one interval
  bool decided_ = false;
  std::vector<std::vector<RunningMean>> apart_;  ///< [i][j], j < i: differences up to the round
};

inline constexpr std::size_t kMostCandidates = 1000;

/// Place of the parameter `over`. Throws sim::ConfigError (at no place) where it is none of whole numbers.
std::size_t replicate_parameter(const Space& space, const std::string& over);
/// The points to choose from where none are named: all of the space, `over` with its lowest value. Throws
/// sim::ConfigError (at no place) where a parameter has no list of values, or there are more than kMostCandidates.
std::vector<Point> selection_candidates(const Space& space, const std::string& over);

/// A selection among points of a space, whose runs are points that differ in `over` alone.
class PointSelection {
 public:
  /// The space outlives it. Throws as replicate_parameter().
  PointSelection(const Space& space, std::size_t limits, const SelectionParams& params);

  /// Another candidate, before begin(); one that is there already, or one too many, is left out.
  void add(Point point);
  /// No more candidates; of none, all that selection_candidates() has.
  void begin();
  bool begun() const { return selection_.has_value(); }
  /// A run of a candidate, in any order of seeds; runs of other points are left out. After begin().
  void hear(const Point& point, const Evaluation& result);
  /// The next run to make, with the fewest first; nothing when it is decided or there are no seeds left.
  std::optional<Point> next();

  const std::vector<Point>& candidates() const { return candidates_; }
  const Selection& selection() const { return *selection_; }

 private:
  std::string key_of(Point point) const;
  void take(std::size_t candidate);

  const Space& space_;
  SelectionParams params_;
  std::size_t limits_, over_;
  double first_seed_, seeds_;
  std::vector<Point> candidates_;
  std::map<std::string, std::size_t> places_;
  std::vector<std::map<std::size_t, Evaluation>> waiting_;  ///< by seed, for those of earlier seeds
  std::vector<std::size_t> heard_, asked_;                  ///< seeds of each candidate
  std::optional<Selection> selection_;
};

}  // namespace orrery::experiments::search
