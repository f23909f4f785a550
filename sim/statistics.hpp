// Statistics of a run: exact moments and percentiles of samples, averages over time. Confidence intervals stand in
// sim/batch_means.hpp.
//
// Samples are integers (ticks), so sums are exact whatever the order. Up to a limit the samples themselves are kept
// (as runs) and percentiles are exact, with linear interpolation between ranks; past it a log histogram
// (sim/log_histogram.hpp) serves: percentiles wrong by at most 0.049 %, constant memory.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/batch_means.hpp"
#include "sim/log_histogram.hpp"

namespace orrery::sim {

/// Samples >= 0, one by one, as weighted values, or as arithmetic runs; all ways of adding the same samples in any
/// order, merges included, give the same answers.
class SampleStats {
 public:
  static constexpr std::int64_t kExactSamples = 1'000'000;

  /// Percentiles are exact up to `exact` samples: 8 bytes each where each differs from the one before; 16 where some
  /// are equal, or were given with a count, and then once for equal ones in a row; arithmetic runs take 32.
  explicit SampleStats(std::int64_t exact = kExactSamples) : exact_(exact) {}

  /// Adds `count` >= 0 samples of `value` >= 0; std::logic_error else. Amortised constant time.
  void add(std::int64_t value, std::int64_t count = 1) {
    if (histogram_) return histogram_->add(value, count);
    if (value < 0 || count < 0) throw_negative();
    if (count == 0) return;
    count_ += count;
    sum_ += static_cast<__int128>(value) * count;
    if (value > max_) max_ = value;
    if (count == 1 && counts_.empty() && (values_.empty() || values_.back() != value)) {
      values_.push_back(value);
    } else {
      add_counted(value, count);
    }
    dirty_ = true;
    if (count_ > exact_) to_histogram();
  }
  /// Adds first, first + slope, … (`count` samples, all >= 0), as a leap over many iterations leaves them. Constant
  /// time up to the limit; past it that of the histogram buckets between first and last, at most `count`: a run
  /// that stays within 1 % touches eleven. Each of them counts `weight` times. Throws std::logic_error if a sample,
  /// `count` or `weight` is negative.
  void add_run(std::int64_t first, std::int64_t slope, std::int64_t count, std::int64_t weight = 1);
  /// Adds all samples of another (or of itself, again); exact as long as both and their sum are.
  void merge(const SampleStats& other);

  std::int64_t count() const { return histogram_ ? histogram_->count() : count_; }
  std::int64_t max() const { return histogram_ ? histogram_->max() : max_; }
  __int128 sum() const { return histogram_ ? histogram_->sum() : sum_; }
  /// Mean; 0 without samples.
  double mean() const { return count() == 0 ? 0 : static_cast<double>(sum()) / static_cast<double>(count()); }
  /// Value at quantile q in [0, 1]: linear between the ranks around (count - 1) q. 0 without samples. The first call
  /// after new samples sorts (or, with arithmetic runs, finds their buckets), further ones search; runs are never
  /// written out.
  double quantile(double q) const;
  bool exact() const { return !histogram_; }

 private:
  struct Slope {
    std::int64_t first, slope, count, weight;
  };
  [[noreturn]] static void throw_negative();
  void add_counted(std::int64_t value, std::int64_t count);
  std::int64_t count_of(std::size_t run) const { return counts_.empty() ? 1 : counts_[run]; }
  void sort_runs() const;
  void to_histogram();
  std::int64_t at_rank(std::int64_t rank) const;
  std::vector<Slope> slopes_in(const LogHistogram::Place& place) const;
  static std::int64_t at_rank(std::int64_t rank, const LogHistogram::Place& place, const std::vector<Slope>& here);
  std::pair<std::int64_t, std::int64_t> among_slopes(std::int64_t rank) const;

  std::int64_t exact_;  ///< the limit
  std::int64_t count_ = 0;
  __int128 sum_ = 0;
  std::int64_t max_ = 0;
  mutable std::vector<std::int64_t> values_;   // of runs of equal samples, …
  mutable std::vector<std::int64_t> counts_;   // … how many each has; empty: one
  std::vector<Slope> slopes_;                  // all samples are these and the runs of values_
  mutable std::vector<std::int64_t> ranks_;    // without slopes: cumulative counts, unless dirty or all are one
  mutable std::optional<LogHistogram> index_;  // with slopes: all samples, unless dirty
  mutable bool dirty_ = false;
  std::optional<LogHistogram> histogram_;  // instead of all above, past the limit
};

/// Average over time of an integer that changes in steps (queue length, bytes in use): exact sums, 128 bits wide.
class TimeAverage {
 public:
  /// Level from `start` on. With a `mark`, the time spent at or above it is kept too.
  explicit TimeAverage(Time start = {}, std::int64_t level = 0, std::optional<std::int64_t> mark = {})
      : start_(start), last_(start), level_(level), min_(level), max_(level), mark_(mark) {}

  /// The level from `at` on; several changes at one instant leave the last. Throws std::logic_error if time runs
  /// backwards.
  void set(Time at, std::int64_t level);
  /// The same, relative to the level before.
  void add(Time at, std::int64_t change) { set(at, level_ + change); }

  std::int64_t level() const { return level_; }
  /// Integral of the level from the start to `until` (>= the last change), in ticks.
  __int128 area(Time until) const { return area_ + static_cast<__int128>(level_) * (until - last_).ticks; }
  /// Average from the start to `until`; the level where no time has passed.
  double mean(Time until) const;
  /// Least and greatest level that lasted, or the current one.
  std::int64_t min() const { return level_ < min_ ? level_ : min_; }
  std::int64_t max() const { return level_ > max_ ? level_ : max_; }
  /// Time from the start to `until` with the level at or above the mark; 0 without one.
  Duration at_or_above(Time until) const;
  /// Forgets what was before `at` (the end of a warm-up); the level stays.
  void restart(Time at);

 private:
  Time start_, last_;
  std::int64_t level_;
  __int128 area_ = 0;
  std::int64_t min_, max_;
  std::optional<std::int64_t> mark_;
  Duration above_{};
};

}  // namespace orrery::sim
