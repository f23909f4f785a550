#include "sim/statistics.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace orrery::sim {
namespace {
constexpr int kSubBits = 10;  // 1,024 buckets an octave
}

std::size_t SampleStats::bucket_of(std::int64_t value) {
  const auto v = static_cast<std::uint64_t>(value);
  const int width = static_cast<int>(std::bit_width(v));
  if (width <= kSubBits + 1) return static_cast<std::size_t>(v);  // below 2,048 every value has its bucket
  const int shift = width - kSubBits - 1;
  return (static_cast<std::size_t>(shift) << kSubBits) + static_cast<std::size_t>(v >> shift);
}

std::int64_t SampleStats::bucket_middle(std::size_t bucket) {
  if (bucket < (2U << kSubBits)) return static_cast<std::int64_t>(bucket);
  const std::size_t shift = (bucket >> kSubBits) - 1;
  const std::size_t mantissa = bucket - (shift << kSubBits);
  return static_cast<std::int64_t>((mantissa << shift) + ((std::size_t{1} << shift) >> 1));
}

void SampleStats::to_histogram() {
  histogram_.assign(static_cast<std::size_t>(64 - kSubBits) << kSubBits, 0);
  for (const auto& [value, count] : runs_) histogram_[bucket_of(value)] += count;
  runs_.clear();
  runs_.shrink_to_fit();
  ranks_.clear();
}

double SampleStats::at_rank(std::int64_t rank) const {
  if (rank >= count_ - 1) return static_cast<double>(max_);
  const auto it = std::upper_bound(ranks_.begin(), ranks_.end(), rank);
  const auto index = static_cast<std::size_t>(it - ranks_.begin());
  if (histogram_.empty()) return static_cast<double>(runs_[index].first);
  return static_cast<double>(std::clamp(bucket_middle(index), min_, max_));
}

double SampleStats::quantile(double q) const {
  if (count_ == 0) return 0;
  if (!histogram_.empty()) {
    ranks_.resize(histogram_.size());
    std::int64_t total = 0;
    for (std::size_t i = 0; i < histogram_.size(); ++i) ranks_[i] = total += histogram_[i];
  } else if (!sorted_ || ranks_.size() != runs_.size() || ranks_.back() != count_) {
    std::sort(runs_.begin(), runs_.end());
    ranks_.resize(runs_.size());
    std::int64_t total = 0;
    for (std::size_t i = 0; i < runs_.size(); ++i) ranks_[i] = total += runs_[i].second;
    sorted_ = true;
  }
  const double h = static_cast<double>(count_ - 1) * q;
  const double low = std::floor(h);
  const double a = at_rank(static_cast<std::int64_t>(low));
  if (h == low) return a;
  const double b = at_rank(static_cast<std::int64_t>(low) + 1);
  return a + (h - low) * (b - a);
}

void BatchMeans::add(double value) {
  batch_sum_ += value;
  if (++in_batch_ < batch_) return;
  const double mean = batch_sum_ / static_cast<double>(batch_);
  sum_ += mean;
  sum_squares_ += mean * mean;
  ++batches_;
  in_batch_ = 0;
  batch_sum_ = 0;
}

double BatchMeans::mean() const {
  return batches_ == 0 ? 0 : sum_ / static_cast<double>(batches_);
}

double BatchMeans::half_width() const {
  if (batches_ < 2) return 0;
  const auto n = static_cast<double>(batches_);
  const double variance = std::max(0.0, (sum_squares_ - sum_ * sum_ / n) / (n - 1));
  return 1.96 * std::sqrt(variance / n);
}

}  // namespace orrery::sim
