// Which of the buffers placed so far are live together with a given one: a tree over the buffers in order of begin that
// knows the latest end below each node. Inserting is O(log n), a query O((overlaps + 1) log n).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "policies/memory/planner.hpp"

namespace orrery::policies {

class PlacedIndex {
 public:
  /// Of `buffers`, which must outlive it; none is placed yet.
  explicit PlacedIndex(std::span<const Buffer> buffers)
      : buffers_(buffers), by_begin_(buffers.size()), rank_(buffers.size()) {
    std::iota(by_begin_.begin(), by_begin_.end(), std::uint32_t{0});
    std::stable_sort(by_begin_.begin(), by_begin_.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return buffers_[a].begin < buffers_[b].begin; });
    for (std::size_t i = 0; i < by_begin_.size(); ++i) rank_[by_begin_[i]] = i;
    while (leaves_ < buffers.size()) leaves_ *= 2;
    latest_.assign(2 * leaves_, kNever);
  }

  void insert(std::size_t index) {
    std::size_t node = leaves_ + rank_[index];
    for (const std::int64_t end = buffers_[index].end; node > 0; node /= 2)
      latest_[node] = std::max(latest_[node], end);
  }

  /// Calls `visit(index)` for each placed buffer whose lifetime overlaps that of `buffer`, in order of begin.
  template <class Visit>
  void for_each_overlap(const Buffer& buffer, Visit visit) const {
    descend(1, 0, leaves_, buffer, visit);
  }

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();

  /// False once the buffers begin after `buffer` has ended.
  template <class Visit>
  bool descend(std::size_t node, std::size_t first, std::size_t size, const Buffer& buffer, Visit& visit) const {
    if (first >= by_begin_.size() || buffers_[by_begin_[first]].begin >= buffer.end) return false;
    if (latest_[node] <= buffer.begin) return true;
    if (size == 1) {
      visit(static_cast<std::size_t>(by_begin_[first]));
      return true;
    }
    return descend(2 * node, first, size / 2, buffer, visit) &&
           descend(2 * node + 1, first + size / 2, size / 2, buffer, visit);
  }

  std::span<const Buffer> buffers_;
  std::vector<std::uint32_t> by_begin_;
  std::vector<std::size_t> rank_;
  std::size_t leaves_ = 1;
  std::vector<std::int64_t> latest_;
};

}  // namespace orrery::policies
