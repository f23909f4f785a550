// Which leaves of a search tree go on: REBASE's shares, and ETS's integer program, solved exactly where it can be.
//
// ETS (arXiv 2502.13575 and its public code): leaves i with shares O_i, ancestors j, clusters k of equal leaves;
//   max  sum_i O_i x_i - lambda_c (sum_j y_j + sum_i x_i) / (M + N) + (lambda_s / K) sum_k c_k
//   s.t. y_j >= x_i for every leaf i under j, c_k <= sum of x_i in k, sum x >= 1; all 0 or 1,
// with N leaves, M ancestors, K clusters. Without the last sum a walk over the tree solves it. With it the constraint
// of a cluster is relaxed by a price mu_k in [0, lambda_s / K]: every leaf of k gains mu_k, and lambda_s / K - mu_k is
// had for nothing, an upper bound for any mu; subgradient steps lower it, and branch and bound on single leaves closes
// what is left. Deterministic; O(leaves + ancestors) an evaluation.
#pragma once

#include <cstdint>
#include <vector>

namespace orrery::experiments {

/// A tree as parents: node 0 is the root; a node comes after its parent.
struct SearchTree {
  std::vector<std::int32_t> parent;    ///< of every node; -1 for the root
  std::vector<std::int32_t> leaves;    ///< nodes that may go on; leaves all
  std::vector<std::int32_t> clusters;  ///< of each leaf, 0 … K-1
};

/// Continuations of each leaf under REBASE: `width` split by softmax(reward / temperature), in falling order of reward
/// (ties by index), each rounded up of what is left until nothing is.
std::vector<std::int64_t> rebase_shares(const std::vector<double>& rewards, std::int64_t width, double temperature);

struct TreeChoice {
  std::vector<char> keep;  ///< by leaf; at least one
  double value = 0;        ///< of the objective
  double bound = 0;        ///< no choice is better than this
  std::int64_t nodes = 0;  ///< of the search
  bool exact() const { return bound <= value + 1e-9; }
};

/// Objective of a choice.
double choice_value(const SearchTree& tree, const std::vector<double>& shares, double lambda_c, double lambda_s,
                    const std::vector<char>& keep);
/// The best choice, or the best found in `most_nodes` nodes. `shares` by leaf.
TreeChoice choose_leaves(const SearchTree& tree, const std::vector<double>& shares, double lambda_c, double lambda_s,
                         std::int64_t most_nodes = 2000);

}  // namespace orrery::experiments
