#include "experiments/fidelity/boosted_trees.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace orrery::experiments {
namespace {

using Bin = std::uint8_t;

/// An input's thresholds, and into which interval between them each row falls.
struct Binned {
  std::vector<double> thresholds;  ///< ascending; interval i holds values above thresholds[i - 1], up to thresholds[i]
  std::vector<Bin> bins;
};

Binned binned(std::span<const hw::ResidualQuery> queries, std::size_t input, std::size_t most) {
  std::vector<double> values;
  values.reserve(queries.size());
  for (const hw::ResidualQuery& query : queries) values.push_back(query.inputs[input]);
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  Binned out;
  for (std::size_t i = 1; i <= most; ++i) {
    const std::size_t at = i * (sorted.size() - 1) / (most + 1);
    // Half way to the next value that differs, so that a threshold belongs to no row.
    const auto next = std::upper_bound(sorted.begin(), sorted.end(), sorted[at]);
    if (next == sorted.end()) break;
    const double threshold = sorted[at] + (*next - sorted[at]) / 2;
    if (out.thresholds.empty() || threshold > out.thresholds.back()) out.thresholds.push_back(threshold);
  }
  out.bins.reserve(values.size());
  for (const double value : values)
    out.bins.push_back(static_cast<Bin>(std::lower_bound(out.thresholds.begin(), out.thresholds.end(), value) -
                                        out.thresholds.begin()));
  return out;
}

struct Sum {
  double residual = 0, rows = 0;
};

/// What a leaf explains of its rows' residuals.
double explained(const Sum& sum, double shrink) {
  return sum.residual * sum.residual / (sum.rows + shrink);
}

struct Question {
  std::size_t input = 0, threshold = 0;
  double explains = -1;
};

class Booster {
 public:
  Booster(std::span<const hw::ResidualQuery> queries, std::span<const double> targets, const BoostOptions& options)
      : options_(options), left_(targets.begin(), targets.end()), residuals_(targets.size()), leaf_(targets.size()) {
    for (std::size_t input = 0; input < queries.front().count; ++input)
      inputs_.push_back(binned(queries, input, std::min<std::size_t>(options.thresholds, 254)));
  }

  /// The next tree; its leaves are taken off what is left.
  hw::TreeEnsemble::Tree grow() {
    for (std::size_t row = 0; row < left_.size(); ++row)
      residuals_[row] = std::clamp(left_[row], -options_.clip, options_.clip);
    std::fill(leaf_.begin(), leaf_.end(), std::uint16_t{0});
    hw::TreeEnsemble::Tree tree;
    for (std::size_t level = 0; level < options_.splits; ++level) {
      const Question best = best_question(std::size_t{1} << level);
      if (best.explains < 0) break;
      const Binned& input = inputs_[best.input];
      tree.splits.push_back({static_cast<std::int32_t>(best.input), input.thresholds[best.threshold]});
      for (std::size_t row = 0; row < leaf_.size(); ++row)
        leaf_[row] = static_cast<std::uint16_t>(2 * leaf_[row] + (input.bins[row] > best.threshold ? 1 : 0));
    }
    std::vector<Sum> sums(std::size_t{1} << tree.splits.size());
    for (std::size_t row = 0; row < leaf_.size(); ++row) {
      sums[leaf_[row]].residual += residuals_[row];
      sums[leaf_[row]].rows += 1;
    }
    for (const Sum& sum : sums)
      tree.leaves.push_back(
          static_cast<std::int32_t>(std::lround(1e4 * options_.rate * sum.residual / (sum.rows + options_.shrink))));
    for (std::size_t row = 0; row < leaf_.size(); ++row) left_[row] -= 1e-4 * tree.leaves[leaf_[row]];
    return tree;
  }

 private:
  Question best_question(std::size_t leaves) {
    Question best;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Binned& input = inputs_[i];
      const std::size_t bins = input.thresholds.size() + 1;
      if (bins < 2) continue;
      sums_.assign(leaves * bins, {});
      for (std::size_t row = 0; row < leaf_.size(); ++row) {
        Sum& sum = sums_[leaf_[row] * bins + input.bins[row]];
        sum.residual += residuals_[row];
        sum.rows += 1;
      }
      gain_.assign(bins - 1, 0);
      for (std::size_t leaf = 0; leaf < leaves; ++leaf) add_gains(leaf * bins, bins);
      for (std::size_t t = 0; t + 1 < bins; ++t)
        if (gain_[t] > best.explains) best = {i, t, gain_[t]};
    }
    return best;
  }

  /// What both sides of each threshold explain, of the leaf whose sums begin at `first`.
  void add_gains(std::size_t first, std::size_t bins) {
    Sum all, below;
    for (std::size_t b = 0; b < bins; ++b) all.residual += sums_[first + b].residual, all.rows += sums_[first + b].rows;
    for (std::size_t t = 0; t + 1 < bins; ++t) {
      below.residual += sums_[first + t].residual, below.rows += sums_[first + t].rows;
      const Sum above{all.residual - below.residual, all.rows - below.rows};
      gain_[t] += explained(below, options_.shrink) + explained(above, options_.shrink);
    }
  }

  BoostOptions options_;
  std::vector<Binned> inputs_;
  std::vector<double> left_, residuals_, gain_;
  std::vector<std::uint16_t> leaf_;
  std::vector<Sum> sums_;
};

}  // namespace

hw::TreeEnsemble fit_trees(std::span<const hw::ResidualQuery> queries, std::span<const double> targets,
                           const BoostOptions& options) {
  hw::TreeEnsemble out;
  if (queries.empty()) return out;
  Booster booster(queries, targets, options);
  for (std::size_t i = 0; i < options.trees; ++i) out.trees.push_back(booster.grow());
  return out;
}

}  // namespace orrery::experiments
