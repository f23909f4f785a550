// Statistics of a run: exact moments, percentiles, and batch means.
//
// Samples are integers (ticks), so sums are exact whatever the order. Up to `kExactSamples` the samples themselves are
// kept (as runs of equal values) and percentiles are exact, with linear interpolation between ranks; past it a
// histogram of 1,024 buckets an octave serves (relative error of a percentile at most 0.05 %).
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace orrery::sim {

class SampleStats {
 public:
  static constexpr std::int64_t kExactSamples = 1'000'000;

  /// Adds `count` samples of `value` >= 0.
  void add(std::int64_t value, std::int64_t count = 1) {
    count_ += count;
    sum_ += static_cast<__int128>(value) * count;
    if (value > max_) max_ = value;
    if (value < min_) min_ = value;
    if (!histogram_.empty()) {
      histogram_[bucket_of(value)] += count;
    } else if (!runs_.empty() && runs_.back().first == value) {
      runs_.back().second += count;
    } else {
      runs_.emplace_back(value, count);
      sorted_ = false;
    }
    if (histogram_.empty() && count_ > kExactSamples) to_histogram();
  }

  std::int64_t count() const { return count_; }
  std::int64_t max() const { return max_; }
  __int128 sum() const { return sum_; }
  /// Mean; 0 without samples.
  double mean() const { return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_); }
  /// Value at quantile q in [0, 1]: linear between the ranks around (count - 1) q. 0 without samples.
  double quantile(double q) const;
  bool exact() const { return histogram_.empty(); }

 private:
  static std::size_t bucket_of(std::int64_t value);
  static std::int64_t bucket_middle(std::size_t bucket);
  void to_histogram();
  double at_rank(std::int64_t rank) const;

  std::int64_t count_ = 0;
  __int128 sum_ = 0;
  std::int64_t max_ = 0;
  std::int64_t min_ = std::numeric_limits<std::int64_t>::max();
  mutable std::vector<std::pair<std::int64_t, std::int64_t>> runs_;  // (value, count)
  mutable std::vector<std::int64_t> ranks_;                          // cumulative counts, when sorted
  mutable bool sorted_ = true;
  std::vector<std::int64_t> histogram_;
};

/// Mean of a correlated series with its 95 % confidence interval by the method of batch means.
class BatchMeans {
 public:
  /// `batch` samples make one batch mean.
  explicit BatchMeans(std::int64_t batch) : batch_(batch) {}
  void add(double value);
  /// Whole batches so far; the interval needs at least two.
  std::int64_t batches() const { return batches_; }
  double mean() const;
  /// Half the width of the 95 % interval (normal quantile; use 20 batches or more).
  double half_width() const;

 private:
  std::int64_t batch_;
  std::int64_t in_batch_ = 0;
  double batch_sum_ = 0;
  std::int64_t batches_ = 0;
  double sum_ = 0, sum_squares_ = 0;
};

}  // namespace orrery::sim
