// Placing buffers in the order in which they are allocated, as a run-time allocator would: what has ended is given back
// first, then the buffer goes into one of the gaps. Which gap is the policy. O(n * gaps).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "policies/memory/planner.hpp"

namespace orrery::policies {

/// The smallest multiple of `alignment` that is not below `offset` (>= 0).
constexpr std::int64_t align_up(std::int64_t offset, std::int64_t alignment) {
  return alignment == 1 ? offset : (offset + alignment - 1) / alignment * alignment;
}

/// Free space of an arena without end: gaps by offset, neighbours merged.
class Gaps {
 public:
  static constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

  Gaps() { gaps_.emplace(0, kEndless); }
  /// [offset, end) of every gap, in order; the last ends at kEndless.
  const std::map<std::int64_t, std::int64_t>& all() const { return gaps_; }

  /// Takes [offset, offset + bytes), which lies in `gap`.
  void take(std::map<std::int64_t, std::int64_t>::const_iterator gap, std::int64_t offset, std::int64_t bytes) {
    const auto [begin, end] = *gap;
    gaps_.erase(gap);
    if (begin < offset) gaps_.emplace(begin, offset);
    if (offset + bytes < end) gaps_.emplace(offset + bytes, end);
  }
  void give(std::int64_t offset, std::int64_t bytes) {
    std::int64_t end = offset + bytes;
    auto after = gaps_.lower_bound(offset);
    if (after != gaps_.end() && after->first == end) {
      end = after->second;
      after = gaps_.erase(after);
    }
    if (after != gaps_.begin()) {
      const auto before = std::prev(after);
      if (before->second == offset) {
        before->second = end;
        return;
      }
    }
    gaps_.emplace_hint(after, offset, end);
  }

 private:
  std::map<std::int64_t, std::int64_t> gaps_;
};

/// Whether `buffer` fits into the gap [begin, end).
inline bool fits(const Buffer& buffer, std::int64_t begin, std::int64_t end) {
  return end == Gaps::kEndless || align_up(begin, buffer.alignment) + buffer.bytes <= end;
}

/// The lowest gap that holds `buffer`.
inline auto lowest_gap(const Gaps& gaps, const Buffer& buffer) {
  auto gap = gaps.all().begin();
  while (!fits(buffer, gap->first, gap->second)) ++gap;
  return gap;
}

/// The smallest gap that holds `buffer`, of equal ones the lowest; the endless one only if there is no other.
inline auto smallest_gap(const Gaps& gaps, const Buffer& buffer) {
  const auto endless = std::prev(gaps.all().end());
  auto best = endless;
  std::int64_t size = Gaps::kEndless;
  for (auto gap = gaps.all().begin(); gap != endless; ++gap) {
    if (gap->second - gap->first >= size || !fits(buffer, gap->first, gap->second)) continue;
    best = gap;
    size = gap->second - gap->first;
  }
  return best;
}

/// `choose(gaps, buffer)` returns the gap to use; `buffers` come in order of begin.
template <class Choose>
std::vector<std::int64_t> place_online(std::span<const Buffer> buffers, Choose choose) {
  std::vector<std::int64_t> offsets(buffers.size());
  using Ending = std::pair<std::int64_t, std::size_t>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> live;
  Gaps gaps;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    while (!live.empty() && live.top().first <= buffer.begin) {
      const std::size_t ended = live.top().second;
      live.pop();
      gaps.give(offsets[ended], buffers[ended].bytes);
    }
    const auto gap = choose(gaps, buffer);
    offsets[i] = align_up(gap->first, buffer.alignment);
    gaps.take(gap, offsets[i], buffer.bytes);
    live.emplace(buffer.end, i);
  }
  return offsets;
}

}  // namespace orrery::policies
