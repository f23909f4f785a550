#include "sim/log_histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

namespace orrery::sim {
namespace {
constexpr int kSubBits = 10;  // 1,024 buckets an octave
}

std::size_t LogHistogram::bucket_of(std::int64_t value) {
  const auto v = static_cast<std::uint64_t>(value);
  const int width = static_cast<int>(std::bit_width(v));
  if (width <= kSubBits + 1) return static_cast<std::size_t>(v);  // below 2,048 every value has its bucket
  const int shift = width - kSubBits - 1;
  return (static_cast<std::size_t>(shift) << kSubBits) + static_cast<std::size_t>(v >> shift);
}

std::int64_t LogHistogram::bucket_low(std::size_t bucket) {
  if (bucket < (2U << kSubBits)) return static_cast<std::int64_t>(bucket);
  const std::size_t shift = (bucket >> kSubBits) - 1;
  return static_cast<std::int64_t>((bucket - (shift << kSubBits)) << shift);
}

std::int64_t LogHistogram::bucket_middle(std::size_t bucket) {
  if (bucket < (2U << kSubBits)) return static_cast<std::int64_t>(bucket);
  const std::size_t shift = (bucket >> kSubBits) - 1;
  return bucket_low(bucket) + static_cast<std::int64_t>((std::size_t{1} << shift) >> 1);
}

std::int64_t& LogHistogram::bucket(std::size_t index) {
  // To the end of the octave: growth stays rare.
  if (index >= buckets_.size()) buckets_.resize(((index >> kSubBits) + 1) << kSubBits);
  return buckets_[index];
}

void LogHistogram::note(std::int64_t low, std::int64_t high, std::int64_t count, __int128 sum) {
  count_ += count;
  sum_ += sum;
  min_ = std::min(min_, low);
  max_ = std::max(max_, high);
  ranks_.clear();
}

void LogHistogram::add(std::int64_t value, std::int64_t count) {
  if (value < 0 || count < 0) throw std::logic_error("histogram: a negative sample or count");
  if (count == 0) return;
  bucket(bucket_of(value)) += count;
  note(value, value, count, static_cast<__int128>(value) * count);
}

void LogHistogram::add_run(std::int64_t first, std::int64_t slope, std::int64_t count, std::int64_t weight) {
  if (count <= 0 || weight <= 0) {
    if (count < 0 || weight < 0) throw std::logic_error("histogram: a negative sample or count");
    return;
  }
  if (slope == 0 || count == 1) return add(first, count * weight);
  const __int128 last = static_cast<__int128>(first) + static_cast<__int128>(slope) * (count - 1);
  if (first < 0 || last < 0 || last > std::numeric_limits<std::int64_t>::max())
    throw std::logic_error("histogram: a run leaves the range of samples");
  // Counted from its lower end, a run rises.
  const auto low = slope > 0 ? first : static_cast<std::int64_t>(last);
  const auto high = slope > 0 ? static_cast<std::int64_t>(last) : first;
  const std::uint64_t step = slope > 0 ? static_cast<std::uint64_t>(slope) : 0 - static_cast<std::uint64_t>(slope);
  const std::size_t end = bucket_of(high);
  (void)bucket(end);
  std::int64_t done = 0;
  for (std::uint64_t value = static_cast<std::uint64_t>(low); done < count; value += step) {
    // All samples up to the last value of this bucket at once.
    const std::size_t index = bucket_of(static_cast<std::int64_t>(value));
    std::int64_t here = count - done;
    if (index != end) {
      const auto next = static_cast<std::uint64_t>(bucket_low(index + 1));
      here = static_cast<std::int64_t>((next - 1 - value) / step) + 1;
    }
    buckets_[index] += here * weight;
    done += here;
    value += step * static_cast<std::uint64_t>(here - 1);
  }
  note(low, high, count * weight, (static_cast<__int128>(first) + last) * count / 2 * weight);
}

void LogHistogram::merge(const LogHistogram& other) {
  if (other.count_ == 0) return;
  (void)bucket(other.buckets_.size() - 1);
  for (std::size_t i = 0; i < other.buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  note(other.min_, other.max_, other.count_, other.sum_);
}

double LogHistogram::at_rank(std::int64_t rank) const {
  if (rank <= 0) return static_cast<double>(min_);
  if (rank >= count_ - 1) return static_cast<double>(max_);
  const auto it = std::upper_bound(ranks_.begin(), ranks_.end(), rank);
  const std::int64_t middle = bucket_middle(bucket_of(min_) + static_cast<std::size_t>(it - ranks_.begin()));
  return static_cast<double>(std::clamp(middle, min_, max_));
}

void LogHistogram::count_ranks() const {
  if (!ranks_.empty()) return;
  const std::size_t first = bucket_of(min_);
  ranks_.resize(bucket_of(max_) + 1 - first);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < ranks_.size(); ++i) ranks_[i] = total += buckets_[first + i];
}

LogHistogram::Place LogHistogram::place_of(std::int64_t rank) const {
  count_ranks();
  const auto it = std::upper_bound(ranks_.begin(), ranks_.end(), rank);
  const std::size_t bucket = bucket_of(min_) + static_cast<std::size_t>(it - ranks_.begin());
  return {bucket_low(bucket), bucket_low(bucket + 1) - 1, it == ranks_.begin() ? 0 : *(it - 1)};
}

double LogHistogram::quantile(double q) const {
  if (count_ == 0) return 0;
  count_ranks();
  const double h = static_cast<double>(count_ - 1) * q;
  const double low = std::floor(h);
  const double a = at_rank(static_cast<std::int64_t>(low));
  if (h == low) return a;
  const double b = at_rank(static_cast<std::int64_t>(low) + 1);
  return a + (h - low) * (b - a);
}

bool operator==(const LogHistogram& a, const LogHistogram& b) {
  if (a.count_ != b.count_ || a.sum_ != b.sum_ || a.min_ != b.min_ || a.max_ != b.max_) return false;
  const auto& shorter = a.buckets_.size() < b.buckets_.size() ? a.buckets_ : b.buckets_;
  const auto& longer = a.buckets_.size() < b.buckets_.size() ? b.buckets_ : a.buckets_;
  return std::equal(shorter.begin(), shorter.end(), longer.begin()) &&
         std::all_of(longer.begin() + std::ssize(shorter), longer.end(), [](std::int64_t n) { return n == 0; });
}

}  // namespace orrery::sim
