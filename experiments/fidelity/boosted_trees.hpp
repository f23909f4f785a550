// Gradient boosting of oblivious trees: what the errors of a model follow.
//
// Each tree is fitted to what the trees before it left of log(measured / predicted), clipped, so that a wild row pulls
// no harder than a bad one. A level of a tree is one question for all of its leaves, the one that explains most (sums
// of squared means, shrunk by `shrink` rows that say nothing); thresholds stand between quantiles of an input.
// Deterministic: no rows or inputs are drawn, and ties go to the first input.
#pragma once

#include <span>

#include "hw/cost/residual.hpp"

namespace orrery::experiments {

struct BoostOptions {
  std::size_t trees = 120;
  std::size_t splits = 6;
  std::size_t thresholds = 62;  ///< tried of an input, at most
  double rate = 0.15;           ///< of what a leaf's mean says that is taken
  double shrink = 5;            ///< rows without an error that each leaf is thought to have beside its own
  double clip = 0.15;           ///< log-residual beyond which a row counts as this
};

/// Fits trees to `targets`, one a query; all queries are of one kind. No trees for no rows.
hw::TreeEnsemble fit_trees(std::span<const hw::ResidualQuery> queries, std::span<const double> targets,
                           const BoostOptions& options = {});

}  // namespace orrery::experiments
