#include "sim/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/base/radix_sort.hpp"

namespace orrery::sim {

void SampleStats::throw_negative() {
  throw std::logic_error("statistics: a negative sample or count");
}

void SampleStats::add_run(std::int64_t first, std::int64_t slope, std::int64_t count, std::int64_t weight) {
  if (count < 0 || weight < 0) throw_negative();
  if (count == 0 || weight == 0) return;
  if (slope == 0 || count == 1) return add(first, count * weight);
  if (histogram_) return histogram_->add_run(first, slope, count, weight);
  const __int128 last = static_cast<__int128>(first) + static_cast<__int128>(slope) * (count - 1);
  if (first < 0 || last < 0 || last > std::numeric_limits<std::int64_t>::max())
    throw std::logic_error("statistics: a run leaves the range of samples");
  count_ += count * weight;
  sum_ += (static_cast<__int128>(first) + last) * count / 2 * weight;
  max_ = std::max({max_, first, static_cast<std::int64_t>(last)});
  slopes_.push_back({first, slope, count, weight});
  dirty_ = true;
  if (count_ > exact_) to_histogram();
}

/// One that must not have a run for itself: it has a count, or is equal to the one before.
void SampleStats::add_counted(std::int64_t value, std::int64_t count) {
  if (counts_.empty()) counts_.assign(values_.size(), 1);
  if (!values_.empty() && values_.back() == value) {
    counts_.back() += count;
  } else {
    values_.push_back(value);
    counts_.push_back(count);
  }
}

void SampleStats::to_histogram() {
  histogram_.emplace();
  for (std::size_t i = 0; i < values_.size(); ++i) histogram_->add(values_[i], count_of(i));
  for (const Slope& run : slopes_) histogram_->add_run(run.first, run.slope, run.count, run.weight);
  values_ = {};
  counts_ = {};
  slopes_ = {};
  ranks_ = {};
  index_.reset();
}

void SampleStats::merge(const SampleStats& other) {
  if (other.count() == 0) return;
  if (&other == this) {  // what is appended to must not be what is read
    const SampleStats copy = other;
    return merge(copy);
  }
  if (exact() && other.exact() && count_ + other.count_ <= exact_) {
    if (!counts_.empty() || !other.counts_.empty()) {
      counts_.resize(values_.size(), 1);
      for (std::size_t i = 0; i < other.values_.size(); ++i) counts_.push_back(other.count_of(i));
    }
    values_.insert(values_.end(), other.values_.begin(), other.values_.end());
    slopes_.insert(slopes_.end(), other.slopes_.begin(), other.slopes_.end());
    count_ += other.count_;
    sum_ += other.sum_;
    max_ = std::max(max_, other.max_);
    dirty_ = true;
    return;
  }
  if (exact()) to_histogram();
  if (other.histogram_) return histogram_->merge(*other.histogram_);
  for (std::size_t i = 0; i < other.values_.size(); ++i) histogram_->add(other.values_[i], other.count_of(i));
  for (const Slope& run : other.slopes_) histogram_->add_run(run.first, run.slope, run.count, run.weight);
}

/// Without slopes: values sorted, equal ones with counts together.
void SampleStats::sort_runs() const {
  ranks_.clear();
  dirty_ = false;
  if (counts_.empty()) return radix_sort(values_, [](std::int64_t value) { return static_cast<std::uint64_t>(value); });
  std::vector<std::pair<std::int64_t, std::int64_t>> runs(values_.size());
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i] = {values_[i], counts_[i]};
  radix_sort(runs, [](const auto& run) { return static_cast<std::uint64_t>(run.first); });
  std::size_t kept = 0;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    if (runs[i].first == runs[kept].first)
      runs[kept].second += runs[i].second;
    else
      runs[++kept] = runs[i];
  }
  runs.resize(std::min(runs.size(), kept + 1));
  values_.resize(runs.size());
  counts_.resize(runs.size());
  ranks_.resize(runs.size());
  std::int64_t total = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    values_[i] = runs[i].first;
    counts_[i] = runs[i].second;
    ranks_[i] = total += counts_[i];
  }
}

/// Without slopes: the value of a rank below the last.
std::int64_t SampleStats::at_rank(std::int64_t rank) const {
  if (ranks_.empty()) return values_[static_cast<std::size_t>(rank)];
  const auto it = std::upper_bound(ranks_.begin(), ranks_.end(), rank);
  return values_[static_cast<std::size_t>(it - ranks_.begin())];
}

/// Samples of a bucket of the index as rising runs.
std::vector<SampleStats::Slope> SampleStats::slopes_in(const LogHistogram::Place& place) const {
  std::vector<Slope> here;
  const auto add = [&](Slope run) {
    if (run.slope < 0) {
      run.first += run.slope * (run.count - 1);
      run.slope = -run.slope;
    }
    const std::int64_t last = run.first + run.slope * (run.count - 1);
    if (last < place.low || run.first > place.high) return;
    if (run.first < place.low) {
      const std::int64_t skip = (place.low - run.first + run.slope - 1) / run.slope;
      run.first += skip * run.slope;
      run.count -= skip;
    }
    if (run.count > 0 && run.first <= place.high) here.push_back(run);
  };
  for (std::size_t i = 0; i < values_.size(); ++i)
    if (values_[i] >= place.low && values_[i] <= place.high) here.push_back({values_[i], 1, 1, count_of(i)});
  for (const Slope& run : slopes_) add(run);
  return here;
}

/// The value of a rank in a bucket that holds these: the least with more than `rank` samples up to it.
std::int64_t SampleStats::at_rank(std::int64_t rank, const LogHistogram::Place& place, const std::vector<Slope>& here) {
  std::int64_t low = place.low;
  std::int64_t high = place.high;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    std::int64_t samples = place.before;
    for (const Slope& run : here)
      if (run.first <= middle) samples += std::min(run.count, (middle - run.first) / run.slope + 1) * run.weight;
    if (samples > rank) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// With slopes: the values of a rank below the last and of the next, which mostly share a bucket.
std::pair<std::int64_t, std::int64_t> SampleStats::among_slopes(std::int64_t rank) const {
  LogHistogram::Place place = index_->place_of(rank);
  std::vector<Slope> here = slopes_in(place);
  const std::int64_t value = at_rank(rank, place, here);
  if (rank + 1 >= count_ - 1) return {value, max_};
  if (const LogHistogram::Place next = index_->place_of(rank + 1); next.low != place.low) {
    place = next;
    here = slopes_in(place);
  }
  return {value, at_rank(rank + 1, place, here)};
}

double SampleStats::quantile(double q) const {
  if (histogram_) return histogram_->quantile(q);
  if (count_ == 0) return 0;
  const bool sloping = !slopes_.empty();
  if (dirty_ && sloping) {
    index_.emplace();
    for (std::size_t i = 0; i < values_.size(); ++i) index_->add(values_[i], count_of(i));
    for (const Slope& run : slopes_) index_->add_run(run.first, run.slope, run.count, run.weight);
    dirty_ = false;
  } else if (dirty_) {
    sort_runs();
  }
  const double h = static_cast<double>(count_ - 1) * q;
  const double low = std::floor(h);
  const auto rank = static_cast<std::int64_t>(low);
  if (rank >= count_ - 1) return static_cast<double>(max_);
  const auto [lower, upper] = sloping ? among_slopes(rank) : std::pair(at_rank(rank), at_rank(rank + 1));
  const auto a = static_cast<double>(lower), b = static_cast<double>(upper);
  return a + (h - low) * (b - a);
}

void TimeAverage::set(Time at, std::int64_t level) {
  if (at < last_) throw std::logic_error("time average: time runs backwards");
  if (at > last_) {
    area_ = area(at);
    above_ = at_or_above(at);
    min_ = min();
    max_ = max();
    last_ = at;
  }
  if (at == start_) min_ = max_ = level;  // what was set before no time had passed never lasted
  level_ = level;
}

double TimeAverage::mean(Time until) const {
  const std::int64_t length = (until - start_).ticks;
  return length == 0 ? static_cast<double>(level_) : static_cast<double>(area(until)) / static_cast<double>(length);
}

Duration TimeAverage::at_or_above(Time until) const {
  return mark_ && level_ >= *mark_ ? above_ + (until - last_) : above_;
}

void TimeAverage::restart(Time at) {
  set(at, level_);
  *this = TimeAverage(at, level_, mark_);
}

}  // namespace orrery::sim
