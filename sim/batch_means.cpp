#include "sim/batch_means.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "sim/base/math.hpp"

namespace orrery::sim {
namespace {

constexpr double kQuarterTurn = 1.5707963267948966;

void require_confidence(double confidence) {
  if (!(confidence > 0 && confidence < 1)) throw std::invalid_argument("expected a confidence in (0, 1)");
}

/// P(|T| <= sqrt(degrees) tan(angle)): for whole degrees of freedom a finite sum (Abramowitz and
/// Stegun 26.7.3, 26.7.4).
double t_probability(double angle, std::int64_t degrees) {
  const double sine = det_sin(angle);
  const double cosine = det_cos(angle);
  const bool odd = degrees % 2 != 0;
  double term = odd ? cosine : 1;
  double sum = degrees == 1 ? 0 : term;
  for (std::int64_t k = odd ? 3 : 2; k < degrees; k += 2) {
    term *= cosine * cosine * static_cast<double>(k - 1) / static_cast<double>(k);
    sum += term;
  }
  return odd ? (angle + sine * sum) / kQuarterTurn : sine * sum;
}

/// Where the rising function reaches `target` between low and high, by halving.
template <class F>
double solve(F f, double target, double low, double high) {
  for (int i = 0; i < 100; ++i) {
    const double middle = 0.5 * (low + high);
    (f(middle) < target ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

/// Mean and the sum of squared deviations from it.
struct Spread {
  double mean, squares;
};
Spread spread(const double* values, std::size_t n) {
  const double mean = std::accumulate(values, values + n, 0.0) / static_cast<double>(n);
  double squares = 0;
  for (std::size_t i = 0; i < n; ++i) squares += (values[i] - mean) * (values[i] - mean);
  return {mean, squares};
}

double half_width_of(double squares, std::int64_t batches, double confidence) {
  return mean_half_width(squares / static_cast<double>(batches - 1), batches, confidence);
}

}  // namespace

double normal_z(double confidence) {
  require_confidence(confidence);
  // Solved for the small side, which keeps its digits.
  return solve([](double z) { return -det_erfc(z * 0.70710678118654752); }, confidence - 1, 0, 40);
}

double mean_half_width(double variance, std::int64_t count, double confidence) {
  return student_t(confidence, count - 1) * std::sqrt(variance / static_cast<double>(count));
}

double student_t(double confidence, std::int64_t degrees) {
  require_confidence(confidence);
  if (degrees < 1) throw std::invalid_argument("expected at least one degree of freedom");
  const auto n = static_cast<double>(degrees);
  if (degrees <= 400) {
    const double angle = solve([&](double a) { return t_probability(a, degrees); }, confidence, 0, kQuarterTurn);
    return std::sqrt(n) * det_tan(angle);
  }
  // Expansion in 1/degrees (Abramowitz and Stegun 26.7.5); what is left out is below 1e-8 here for confidence up to
  // 0.999.
  const double z = normal_z(confidence);
  const double q = z * z;
  return z * (1 + (q + 1) / (4 * n) + ((5 * q + 16) * q + 3) / (96 * n * n) +
              (((3 * q + 19) * q + 17) * q - 15) / (384 * n * n * n));
}

void BatchMeans::add(double value) {
  batch_sum_ += value;
  if (++in_batch_ < batch_) return;
  const double mean = batch_sum_ / static_cast<double>(batch_);
  ++batches_;
  const double from_old = mean - mean_;
  mean_ += from_old / static_cast<double>(batches_);
  squares_ += from_old * (mean - mean_);
  in_batch_ = 0;
  batch_sum_ = 0;
}

double BatchMeans::half_width() const {
  return batches_ < 2 ? 0 : half_width_of(squares_, batches_, 0.95);
}

void SteadyMean::add(double value) {
  ++count_;
  batch_sum_ += value;
  if (++in_batch_ < size_) return;
  means_.push_back(batch_sum_ / static_cast<double>(size_));
  in_batch_ = 0;
  batch_sum_ = 0;
  if (means_.size() < kMost) return;
  for (std::size_t i = 0; i < kMost / 2; ++i) means_[i] = 0.5 * (means_[2 * i] + means_[2 * i + 1]);
  means_.resize(kMost / 2);
  size_ *= 2;
}

/// MSER: the cut d that minimises the squared standard error of the rest, sum (x - mean)^2 / (n - d)^2. From the end,
/// one pass.
std::size_t SteadyMean::transient_end(bool& unsettled) const {
  const std::size_t n = means_.size();
  double mean = 0, squares = 0, best = std::numeric_limits<double>::infinity();
  std::size_t cut = 0;
  for (std::size_t d = n; d-- > 0;) {
    const auto kept = static_cast<double>(n - d);
    const double from_old = means_[d] - mean;
    mean += from_old / kept;
    squares += from_old * (means_[d] - mean);
    // The last few always look steady.
    if (n - d >= 5 && squares / (kept * kept) <= best) {
      best = squares / (kept * kept);
      cut = d;
    }
  }
  unsettled = cut > n / 2;
  return std::min(cut, n / 2);
}

SteadyMean::Interval SteadyMean::interval(double confidence) const {
  require_confidence(confidence);
  Interval result;
  const std::size_t n = means_.size();
  if (n < 2) {
    const double sum = batch_sum_ + static_cast<double>(size_) * std::accumulate(means_.begin(), means_.end(), 0.0);
    result.mean = count_ == 0 ? 0 : sum / static_cast<double>(count_);
    result.samples = count_;
    return result;
  }
  const std::size_t cut = transient_ == Transient::cut ? transient_end(result.unsettled) : 0;
  const std::size_t kept = n - cut;
  const std::size_t groups = std::min(kept, kGroups);
  result.mean = spread(means_.data() + cut, kept).mean;
  // Lengths differ by one at most. A mean of n of N samples has N / n times the variance of the whole's, so squares
  // count in proportion to lengths; with equal lengths this is the usual formula.
  double squares = 0;
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t first = g * kept / groups;
    const std::size_t length = (g + 1) * kept / groups - first;
    const double off = spread(means_.data() + cut + first, length).mean - result.mean;
    squares += static_cast<double>(length * groups) / static_cast<double>(kept) * off * off;
  }
  result.batches = static_cast<std::int64_t>(groups);
  result.half_width = groups < 2 ? 0 : half_width_of(squares, result.batches, confidence);
  result.samples = static_cast<std::int64_t>(kept) * size_;
  result.skipped = static_cast<std::int64_t>(cut) * size_;
  return result;
}

}  // namespace orrery::sim
