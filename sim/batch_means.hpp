// Confidence intervals of the mean of a correlated series, such as waiting times of one run, by batch means.
//
// The series is cut into batches; when batches are long against the correlation their means are nearly independent, and
// Student's t with one degree of freedom less than batches gives the interval. What is assumed: the series is
// stationary (after the initial transient) and batches are long enough; an interval from a run of a few correlation
// lengths is too narrow whatever the method. Sources: Law, Simulation Modeling and Analysis, 9.5; White, Cobb and
// Spratt 2000 (MSER-5).
#pragma once

#include <cstdint>
#include <vector>

namespace orrery::sim {

/// t with P(|T| <= t) = confidence for Student's distribution; confidence in (0, 1), degrees >= 1 (else
/// std::invalid_argument). Absolute error below 1e-8 for confidence up to 0.999; towards 1 digits are lost: the
/// relative error is some 1e-16 / (1 - confidence) (2e-5 of 636,620 at 0.999999 and 1 degree).
double student_t(double confidence, std::int64_t degrees);
/// Half the width of the interval of a mean of `count` (>= 2) independent values of this variance.
double mean_half_width(double variance, std::int64_t count, double confidence);
/// z with P(|Z| <= z) = confidence for the normal distribution; confidence in (0, 1).
double normal_z(double confidence);

/// Mean with its 95 % interval from batches of a fixed length: for series whose correlation length is known.
class BatchMeans {
 public:
  /// `batch` (>= 1) samples make one batch mean.
  explicit BatchMeans(std::int64_t batch) : batch_(batch) {}
  void add(double value);
  /// Whole batches so far; the interval needs at least two.
  std::int64_t batches() const { return batches_; }
  double mean() const { return mean_; }
  /// Half the width of the 95 % interval; 0 with fewer than two batches.
  double half_width() const;

 private:
  std::int64_t batch_;
  std::int64_t in_batch_ = 0;
  double batch_sum_ = 0;
  std::int64_t batches_ = 0;
  double mean_ = 0, squares_ = 0;  // of batch means: sum of squared deviations (Welford 1962)
};

/// Whether the initial transient is cut off.
enum class Transient { keep, cut };

/// Mean with an interval for a series of unknown length, in constant memory: means of small batches are kept, and
/// joined in pairs whenever there are `kMost` of them. The interval groups them into `kGroups` long
/// batches, whose lengths differ by one small batch at most.
class SteadyMean {
 public:
  static constexpr std::size_t kMost = 2048;
  static constexpr std::size_t kGroups = 32;
  static constexpr std::int64_t kFirstBatch = 5;  // as MSER-5 has it

  struct Interval {
    double mean = 0;        ///< of the samples that count
    double half_width = 0;  ///< 0 where there are fewer than two batches
    std::int64_t batches = 0;
    std::int64_t samples = 0;  ///< that count
    std::int64_t skipped = 0;  ///< at the start: the transient
    /// The cut fell into the second half: the run is too short to say that the transient is over.
    bool unsettled = false;
  };

  explicit SteadyMean(Transient transient = Transient::keep) : transient_(transient) {}
  /// Amortised constant time.
  void add(double value);
  std::int64_t count() const { return count_; }
  /// Mean and half width at `confidence` in (0, 1). Samples of the last, unfinished small batch (at most 4; from 10,240
  /// samples on fewer than count / 1024) are in neither `samples` nor `skipped`; with fewer than two small batches the
  /// mean is that of all samples.
  Interval interval(double confidence = 0.95) const;

 private:
  std::size_t transient_end(bool& unsettled) const;

  Transient transient_;
  std::vector<double> means_;  // of batches of size_ samples
  std::int64_t size_ = kFirstBatch;
  std::int64_t count_ = 0, in_batch_ = 0;
  double batch_sum_ = 0;
};

}  // namespace orrery::sim
