// Which evaluations are better than which, as ranks.
#pragma once

#include <span>
#include <vector>

#include "experiments/search/driver.hpp"

namespace orrery::experiments::search {

/// Rank of each evaluation by constraint domination: 0 for what none dominates, 1 for what only those of rank 0
/// dominate, and so on; of what has no result, the last rank. O(n log n) for one objective, else O(n^2).
std::vector<std::size_t> domination_ranks(std::span<const Evaluation* const> all);

/// Fronts of indices by constraint domination, the best first: what none dominates, what only those dominate, and so on
/// (fast non-dominated sorting, Deb 2002). O(n^2).
std::vector<std::vector<std::size_t>> domination_fronts(std::span<const Evaluation* const> all);

/// Indices from best to worst: by rank, within one by how far the neighbours along the objectives are (Deb's crowding
/// distance, far ones first), then as they came.
std::vector<std::size_t> best_first(std::span<const Evaluation* const> all);

}  // namespace orrery::experiments::search
