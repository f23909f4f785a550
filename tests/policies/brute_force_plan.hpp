// The smallest peak of a few buffers, by trying everything: every choice of reuse in place, every order of placing,
// each buffer (or chain of reuse, which is one buffer) at the lowest free offset. Exact: sort a best plan by offset and
// let each buffer fall in turn; none ends higher than it was, alignment included.
#pragma once

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "policies/memory/planner.hpp"

namespace orrery::policies::test {

namespace detail {

struct Exhaustive {
  std::vector<Buffer> buffers;
  std::vector<std::int64_t> offsets;
  std::vector<bool> placed;
  std::int64_t best = std::numeric_limits<std::int64_t>::max();

  void go(std::size_t left, std::int64_t peak) {
    if (peak >= best) return;
    if (left == 0) {
      best = peak;
      return;
    }
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      if (placed[i]) continue;
      std::int64_t offset = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t j = 0; j < buffers.size(); ++j) {
          const bool together = buffers[i].begin < buffers[j].end && buffers[j].begin < buffers[i].end;
          if (!placed[j] || !together || offset + buffers[i].bytes <= offsets[j] ||
              offsets[j] + buffers[j].bytes <= offset)
            continue;
          const std::int64_t end = offsets[j] + buffers[j].bytes, a = buffers[i].alignment;
          offset = (end + a - 1) / a * a;
          moved = true;
        }
      }
      placed[i] = true;
      offsets[i] = offset;
      go(left - 1, std::max(peak, offset + buffers[i].bytes));
      placed[i] = false;
    }
  }
};

}  // namespace detail

/// Up to some eight buffers.
inline std::int64_t brute_force_peak(std::span<const Buffer> given) {
  std::vector<std::size_t> takers;
  for (std::size_t i = 0; i < given.size(); ++i)
    if (given[i].in_place_of) takers.push_back(i);
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  for (std::size_t choice = 0; choice < (std::size_t{1} << takers.size()); ++choice) {
    std::vector<Buffer> merged(given.begin(), given.end());
    std::vector<std::size_t> head(given.size());
    std::iota(head.begin(), head.end(), std::size_t{0});
    std::vector<bool> gone(given.size(), false), taken(given.size(), false);
    bool possible = true;
    // Takers in order of begin, so that a partner's own head is known.
    std::vector<std::size_t> chosen;
    for (std::size_t k = 0; k < takers.size(); ++k)
      if ((choice >> k & 1) != 0) chosen.push_back(takers[k]);
    std::sort(chosen.begin(), chosen.end(),
              [&](std::size_t a, std::size_t b) { return given[a].begin < given[b].begin; });
    for (const std::size_t i : chosen) {
      const auto partner = static_cast<std::size_t>(*given[i].in_place_of);
      possible = possible && !taken[partner];
      taken[partner] = gone[i] = true;
      head[i] = head[partner];
      merged[head[i]].end = std::max(merged[head[i]].end, given[i].end);
      merged[head[i]].alignment = std::lcm(merged[head[i]].alignment, given[i].alignment);
    }
    if (!possible) continue;
    detail::Exhaustive search;
    for (std::size_t i = 0; i < given.size(); ++i)
      if (!gone[i] && given[i].bytes > 0) search.buffers.push_back(merged[i]);
    search.offsets.assign(search.buffers.size(), 0);
    search.placed.assign(search.buffers.size(), false);
    search.best = best;
    search.go(search.buffers.size(), 0);
    best = search.best;
  }
  return best;
}

}  // namespace orrery::policies::test
