#include "experiments/systems/serving/programs/tree_choice.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "sim/base/math.hpp"

namespace orrery::experiments {
namespace {

constexpr double kWorst = -1e18;

enum class Fate : std::uint8_t { open, in, out };

class Solver {
 public:
  Solver(const SearchTree& tree, const std::vector<double>& shares, double lambda_c, double lambda_s,
         std::int64_t most_nodes)
      : tree_(tree), most_nodes_(most_nodes) {
    nodes_ = tree.parent.size();
    leaves_ = tree.leaves.size();
    is_leaf_.assign(nodes_, 0);
    for (const std::int32_t leaf : tree.leaves) is_leaf_[static_cast<std::size_t>(leaf)] = 1;
    // Ancestors that no leaf stands under (dead branches) count for nothing.
    live_.assign(nodes_, 0);
    for (const std::int32_t leaf : tree.leaves)
      for (std::int32_t at = leaf; at >= 0 && live_[static_cast<std::size_t>(at)] == 0;
           at = tree.parent[static_cast<std::size_t>(at)])
        live_[static_cast<std::size_t>(at)] = 1;
    const auto all = static_cast<double>(std::accumulate(live_.begin(), live_.end(), 0));
    node_cost_ = lambda_c / all;  // M + N
    clusters_ = tree.clusters.empty()
                    ? 0
                    : static_cast<std::size_t>(*std::max_element(tree.clusters.begin(), tree.clusters.end())) + 1;
    bonus_ = clusters_ > 0 ? lambda_s / static_cast<double>(clusters_) : 0;
    for (const double share : shares) gain_.push_back(share - node_cost_);
  }

  double value(const std::vector<char>& keep) const {
    std::vector<char> used(nodes_, 0), covered(clusters_, 0);
    double sum = 0;
    for (std::size_t i = 0; i < leaves_; ++i) {
      if (keep[i] == 0) continue;
      sum += gain_[i];
      if (clusters_ > 0 && covered[cluster(i)] == 0) {
        covered[cluster(i)] = 1;
        sum += bonus_;
      }
      for (std::int32_t at = parent(tree_.leaves[i]); at >= 0 && used[static_cast<std::size_t>(at)] == 0;
           at = parent(at)) {
        used[static_cast<std::size_t>(at)] = 1;
        sum -= node_cost_;
      }
    }
    return sum;
  }

  TreeChoice solve() {
    best_.value = kWorst;
    consider(std::vector<char>(leaves_, 1));
    for (std::size_t i = 0; i < leaves_; ++i) {
      std::vector<char> one(leaves_, 0);
      one[i] = 1;
      consider(std::move(one));
    }
    std::vector<Fate> fates(leaves_, Fate::open);
    std::vector<double> mu(clusters_, bonus_ / 2);
    best_.bound = kWorst;
    branch(fates, mu);
    best_.bound = std::max(best_.bound, best_.value);
    return best_;
  }

 private:
  std::int32_t parent(std::int32_t node) const { return tree_.parent[static_cast<std::size_t>(node)]; }
  std::size_t cluster(std::size_t leaf) const { return static_cast<std::size_t>(tree_.clusters[leaf]); }

  void consider(std::vector<char> keep) {
    if (std::none_of(keep.begin(), keep.end(), [](char k) { return k != 0; })) return;
    const double worth = value(keep);
    if (worth <= best_.value + 1e-15) return;
    best_.value = worth;
    best_.keep = std::move(keep);
  }

  /// The relaxation at prices mu: its value, and the leaves it takes.
  double relax(const std::vector<Fate>& fates, const std::vector<double>& mu, std::vector<char>& keep) {
    sum_.assign(nodes_, 0);
    forced_.assign(nodes_, 0);
    for (std::size_t i = 0; i < leaves_; ++i) {
      const auto node = static_cast<std::size_t>(tree_.leaves[i]);
      const double gain = gain_[i] + (clusters_ > 0 ? mu[cluster(i)] : 0);
      forced_[node] = fates[i] == Fate::in;
      sum_[node] = fates[i] == Fate::out ? kWorst : gain;
    }
    // Children come after their parents: what each subtree is worth, leaves up.
    for (std::size_t node = nodes_; node-- > 0;) {
      if (live_[node] == 0) continue;
      if (is_leaf_[node] == 0) sum_[node] -= node_cost_;
      const bool taken = forced_[node] != 0 || sum_[node] > 0;
      if (node == 0) continue;
      const auto up = static_cast<std::size_t>(tree_.parent[node]);
      if (taken) sum_[up] += sum_[node];
      forced_[up] = forced_[up] != 0 || forced_[node] != 0;
    }
    const bool any = forced_[0] != 0 || sum_[0] > 0;
    double bound = any ? sum_[0] : 0;
    for (const double price : mu) bound += bonus_ - price;
    taken_.assign(nodes_, 0);
    taken_[0] = any;
    for (std::size_t node = 1; node < nodes_; ++node)
      if (live_[node] != 0)
        taken_[node] =
            taken_[static_cast<std::size_t>(tree_.parent[node])] != 0 && (forced_[node] != 0 || sum_[node] > 0);
    keep.assign(leaves_, 0);
    for (std::size_t i = 0; i < leaves_; ++i) keep[i] = taken_[static_cast<std::size_t>(tree_.leaves[i])];
    return bound;
  }

  void branch(std::vector<Fate>& fates, std::vector<double> mu) {
    if (best_.nodes >= most_nodes_) {  // not looked at: only the parent's bound is known
      best_.bound = std::max(best_.bound, parent_bound_);
      return;
    }
    ++best_.nodes;
    double bound = 1e18, step = bonus_ / 2;
    std::vector<char> keep;
    std::vector<double> tightest = mu;
    std::vector<std::int64_t> count(clusters_);
    std::vector<char> tightest_keep;
    for (int round = 0; round < 60; ++round) {
      const double here = relax(fates, mu, keep);
      consider(keep);
      if (here < bound - 1e-12) {
        bound = here;
        tightest = mu;
        tightest_keep = keep;
      } else {
        step *= 0.8;
      }
      if (bound <= best_.value + 1e-9 || clusters_ == 0) break;
      std::fill(count.begin(), count.end(), 0);
      for (std::size_t i = 0; i < leaves_; ++i) count[cluster(i)] += keep[i];
      bool moved = false;
      for (std::size_t k = 0; k < clusters_; ++k) {  // d bound / d mu_k = count - 1
        const double next = std::clamp(mu[k] - step * static_cast<double>(count[k] - 1), 0.0, bonus_);
        moved = moved || next != mu[k];
        mu[k] = next;
      }
      if (!moved) break;
    }
    if (bound <= best_.value + 1e-9) return;
    const std::size_t leaf = most_doubtful(fates, tightest, tightest_keep);
    if (leaf == leaves_) {  // all decided
      best_.bound = std::max(best_.bound, best_.value);
      return;
    }
    const Fate first = tightest_keep[leaf] != 0 ? Fate::in : Fate::out;
    for (const Fate fate : {first, first == Fate::in ? Fate::out : Fate::in}) {
      fates[leaf] = fate;
      parent_bound_ = bound;
      branch(fates, tightest);
    }
    fates[leaf] = Fate::open;
  }

  /// An open leaf of the cluster whose constraint is furthest from tight; else the first open one.
  std::size_t most_doubtful(const std::vector<Fate>& fates, const std::vector<double>& mu,
                            const std::vector<char>& keep) const {
    std::vector<std::int64_t> count(clusters_, 0);
    for (std::size_t i = 0; i < leaves_; ++i)
      if (clusters_ > 0) count[cluster(i)] += keep[i];
    std::size_t chosen = leaves_;
    double worst = -1;
    for (std::size_t i = 0; i < leaves_; ++i) {
      if (fates[i] != Fate::open) continue;
      double slack = 0;
      if (clusters_ > 0) {
        const std::size_t k = cluster(i);
        slack = count[k] == 0 ? bonus_ - mu[k] : mu[k] * static_cast<double>(count[k] - 1);
        slack += count[k] == 0 ? 0 : 1e-12;
      }
      if (slack > worst + 1e-15) {
        worst = slack;
        chosen = i;
      }
    }
    return chosen;
  }

  const SearchTree& tree_;
  std::int64_t most_nodes_;
  std::size_t nodes_ = 0, leaves_ = 0, clusters_ = 0;
  double node_cost_ = 0, bonus_ = 0, parent_bound_ = 0;
  std::vector<char> is_leaf_, live_, forced_, taken_;
  std::vector<double> gain_, sum_;
  TreeChoice best_;
};

}  // namespace

std::vector<std::int64_t> rebase_shares(const std::vector<double>& rewards, std::int64_t width, double temperature) {
  std::vector<std::size_t> order(rewards.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rewards[a] > rewards[b]; });
  std::vector<double> weights(rewards.size());
  double left_weight = 0;
  for (std::size_t i = 0; i < rewards.size(); ++i)
    left_weight += weights[i] = sim::det_exp((rewards[i] - rewards[order.front()]) / temperature);
  std::vector<std::int64_t> shares(rewards.size(), 0);
  std::int64_t left = width;
  for (const std::size_t i : order) {
    if (left == 0) break;
    const double part = left_weight > 0 ? std::min(1.0, weights[i] / left_weight) : 1;
    // A share that rounding alone lifts above a whole number is that number.
    shares[i] = std::min(left, static_cast<std::int64_t>(std::ceil(static_cast<double>(left) * part - 1e-9)));
    left -= shares[i];
    left_weight -= weights[i];
  }
  return shares;
}

double choice_value(const SearchTree& tree, const std::vector<double>& shares, double lambda_c, double lambda_s,
                    const std::vector<char>& keep) {
  return Solver(tree, shares, lambda_c, lambda_s, 0).value(keep);
}

TreeChoice choose_leaves(const SearchTree& tree, const std::vector<double>& shares, double lambda_c, double lambda_s,
                         std::int64_t most_nodes) {
  return Solver(tree, shares, lambda_c, lambda_s, most_nodes).solve();
}

}  // namespace orrery::experiments
