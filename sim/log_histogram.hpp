// Histogram of non-negative integers with buckets of equal relative width: constant memory, mergeable.
//
// Values below 2,048 have a bucket each; above, every octave has 1,024, and a bucket answers with its middle, so that a
// value read back is wrong by at most 2^-11 = 0.049 %. Count, sum (128 bits), least and greatest are exact. Memory
// grows with the greatest value, to 432 KiB at 2^63, and doubles with the first quantile that is asked for. Merging is
// exact: any order of merges and additions gives the same histogram.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace orrery::sim {

class LogHistogram {
 public:
  /// Most that a value read back may be wrong, relative to it.
  static constexpr double kRelativeError = 1.0 / 2048;

  /// Adds `count` (>= 0) samples of `value` (>= 0). Constant time.
  void add(std::int64_t value, std::int64_t count = 1);
  /// Adds the samples first, first + slope, …, `count` of them, all >= 0, each `weight` times. The time is that of the
  /// buckets between the first and the last, at most `count`.
  void add_run(std::int64_t first, std::int64_t slope, std::int64_t count, std::int64_t weight = 1);
  /// Adds all samples of another.
  void merge(const LogHistogram& other);

  std::int64_t count() const { return count_; }
  __int128 sum() const { return sum_; }
  /// Least and greatest sample; the histogram must not be empty.
  std::int64_t min() const { return min_; }
  std::int64_t max() const { return max_; }
  /// Mean; 0 without samples.
  double mean() const { return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_); }
  /// Value at quantile q in [0, 1]: linear between the ranks around (count - 1) q, which are right to kRelativeError. 0
  /// without samples.
  double quantile(double q) const;

  /// The values that the sample of a rank (0-based, of `count`) may have, and how many samples are below them.
  struct Place {
    std::int64_t low = 0, high = 0, before = 0;
  };
  Place place_of(std::int64_t rank) const;

  friend bool operator==(const LogHistogram& a, const LogHistogram& b);

 private:
  static std::size_t bucket_of(std::int64_t value);
  static std::int64_t bucket_low(std::size_t bucket);
  static std::int64_t bucket_middle(std::size_t bucket);
  void note(std::int64_t low, std::int64_t high, std::int64_t count, __int128 sum);
  std::int64_t& bucket(std::size_t index);
  double at_rank(std::int64_t rank) const;
  void count_ranks() const;

  std::int64_t count_ = 0;
  __int128 sum_ = 0;
  std::int64_t max_ = 0;
  std::int64_t min_ = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> buckets_;        // up to that of the greatest value, or a little further
  mutable std::vector<std::int64_t> ranks_;  // cumulative counts from the bucket of the least value, if they fit count_
};

}  // namespace orrery::sim
