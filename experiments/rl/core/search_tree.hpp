// A tree of choices for search with a learned model: selection, expansion and backup, without the model itself.
//
// As in Schrittwieser et al., "Mastering Atari, Go, chess and shogi by planning with a learned model", Nature 588,
// 2020, appendix B: from the root down the child of the highest
//   Q + P sqrt(N) / (1 + n) (c1 + log((N + c2 + 1) / c2)),   c1 1.25, c2 19652
// with Q (reward plus discounted value) scaled to [0, 1] by the least and most seen in this tree; the model is asked
// for the leaf; what it says is added along the path. Ties go to the lower choice. A choice that was never tried has
// the mean Q of its tried siblings' parent: its value.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim/base/math.hpp"

namespace orrery::experiments::rl {

class SearchTree {
 public:
  SearchTree(std::size_t choices, double gamma) : choices_(choices), gamma_(gamma) {}

  /// Begins with a root of these probabilities (0: not allowed) and value.
  void begin(std::span<const double> priors, double value) {
    nodes_.clear();
    least_ = std::numeric_limits<double>::infinity();
    most_ = -least_;
    add_node(priors);
    nodes_[0].visits = 1;
    nodes_[0].sum = value;
  }

  /// A place to ask the model about: what `choice` leads to from `parent`.
  struct Leaf {
    std::size_t parent = 0, choice = 0;
  };
  Leaf select() {
    path_.assign(1, 0);
    for (std::size_t node = 0;;) {
      const std::size_t choice = best(nodes_[node]);
      const std::size_t next = nodes_[node].children[choice];
      if (next == 0) return leaf_ = {node, choice};
      path_.push_back(next);
      node = next;
    }
  }
  /// The model's answer for that leaf; the new node's number (nodes are numbered as they are added, the root is 0).
  std::size_t expand(double reward, std::span<const double> priors, double value) {
    const std::size_t added = nodes_.size();
    add_node(priors);
    nodes_[added].reward = reward;
    nodes_[leaf_.parent].children[leaf_.choice] = added;
    path_.push_back(added);
    for (std::size_t i = path_.size(); i-- > 0;) {
      Node& node = nodes_[path_[i]];
      node.sum += value;
      ++node.visits;
      value = node.reward + gamma_ * value;
      if (i == 0) break;
      const double q = node.reward + gamma_ * node.value();
      least_ = std::min(least_, q);
      most_ = std::max(most_, q);
    }
    return added;
  }

  /// How often each choice of the root was taken.
  std::vector<std::int64_t> visits() const {
    std::vector<std::int64_t> out(choices_, 0);
    for (std::size_t c = 0; c < choices_; ++c)
      if (const std::size_t child = nodes_[0].children[c]; child != 0) out[c] = nodes_[child].visits;
    return out;
  }
  double value() const { return nodes_[0].value(); }

 private:
  struct Node {
    double reward = 0, sum = 0;
    std::int64_t visits = 0;
    std::vector<double> priors;
    std::vector<std::size_t> children;  ///< 0: not tried
    double value() const { return visits > 0 ? sum / static_cast<double>(visits) : 0; }
  };

  void add_node(std::span<const double> priors) {
    nodes_.emplace_back();
    nodes_.back().priors.assign(priors.begin(), priors.end());
    nodes_.back().children.assign(choices_, 0);
  }

  double scaled(double q) const { return most_ > least_ ? (q - least_) / (most_ - least_) : q; }

  std::size_t best(const Node& node) const {
    const auto all = static_cast<double>(node.visits);
    const double weight = std::sqrt(all) * (1.25 + sim::det_log((all + 19652 + 1) / 19652));
    std::size_t chosen = choices_;
    double most = 0;
    for (std::size_t c = 0; c < choices_; ++c) {
      if (node.priors[c] <= 0) continue;
      double q = node.value(), taken = 0;
      if (const std::size_t child = node.children[c]; child != 0) {
        q = nodes_[child].reward + gamma_ * nodes_[child].value();
        taken = static_cast<double>(nodes_[child].visits);
      }
      const double score = scaled(q) + node.priors[c] * weight / (1 + taken);
      if (chosen < choices_ && score <= most) continue;
      chosen = c;
      most = score;
    }
    return chosen;
  }

  std::size_t choices_;
  double gamma_;
  std::vector<Node> nodes_;
  std::vector<std::size_t> path_;
  Leaf leaf_;
  double least_ = 0, most_ = 0;
};

}  // namespace orrery::experiments::rl
