// How drivers that need no batch as a whole answer ask(): point by point, from whatever makes the next one.
#pragma once

#include <utility>
#include <vector>

#include "experiments/search/driver.hpp"

namespace orrery::experiments::search {

/// `most` points that `next()` gives; fewer once it gives nothing.
template <class Next>
std::vector<Proposal> proposals(std::size_t most, Next next) {
  std::vector<Proposal> batch;
  while (batch.size() < most) {
    auto point = next();
    if (!point) break;
    batch.push_back({*std::move(point)});
  }
  return batch;
}

/// The next `most` allowed points of an endless sequence; fewer after 100 000 in a row that are not.
template <class Next>
std::vector<Proposal> allowed_proposals(const Space& space, std::size_t most, Next next) {
  constexpr int kTries = 100'000;
  std::vector<Proposal> batch;
  for (int looked = 0; batch.size() < most && looked < kTries; ++looked) {
    Point point = next();
    if (!space.allowed(point)) continue;
    batch.push_back({std::move(point)});
    looked = 0;
  }
  return batch;
}

}  // namespace orrery::experiments::search
