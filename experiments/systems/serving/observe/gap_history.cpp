#include "experiments/systems/serving/observe/gap_history.hpp"

#include <algorithm>

namespace orrery::experiments {

void GapHistory::add_run(std::int64_t first, std::int64_t step, std::int64_t count) {
  const std::int64_t last = first + step * (count - 1);
  const std::int64_t low = std::min(first, last);
  const std::int64_t high = std::max(first, last);
  const std::int64_t slope = step < 0 ? -step : step;
  // Of the values low, low + slope, …, how many are within the target.
  std::int64_t within = 0;
  if (high <= target_) {
    within = count;
  } else if (low <= target_) {
    within = (target_ - low) / slope + 1;  // slope > 0, as low and high differ
  }
  now_.gaps += count;
  now_.over += count - within;
  if (within < count) {
    const std::int64_t value = low + within * slope;
    while (!least_over_.empty() && least_over_.back().value >= value) least_over_.pop_back();
    least_over_.push_back({now_.gaps, value});
  }
  if (within > 0) {
    const std::int64_t value = low + (within - 1) * slope;
    while (!most_within_.empty() && most_within_.back().value <= value) most_within_.pop_back();
    most_within_.push_back({now_.gaps, value});
  }
}

void GapHistory::judge(const Mark& mark, TbtVerdict& verdict) const {
  const auto since = [&](const std::vector<Entry>& entries) {
    const auto at = std::upper_bound(entries.begin(), entries.end(), mark.gaps,
                                     [](std::int64_t gaps, const Entry& entry) { return gaps < entry.gaps; });
    return at == entries.end() ? std::int64_t{0} : at->value;
  };
  if (now_.gaps == mark.gaps) return;
  verdict.add_many(now_.gaps - mark.gaps, now_.over - mark.over, since(least_over_), since(most_within_));
}

void GapHistory::clear() {
  now_ = {};
  least_over_.clear();
  most_within_.clear();
}

}  // namespace orrery::experiments
