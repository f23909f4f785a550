#include "experiments/search/analysis/forest.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace orrery::experiments::search {
namespace {

/// What a split looks at; what does not count is below everything.
double feature(const Point& point, std::size_t parameter) {
  return std::isnan(point[parameter]) ? -std::numeric_limits<double>::infinity() : point[parameter];
}

/// Sums of one side of a split.
struct Side {
  double sum = 0;
  std::size_t count = 0;
  double gain() const { return count == 0 ? 0 : sum * sum / double(count); }
};

}  // namespace

Forest::Forest(const Space& space, std::span<const Point> points, std::span<const double> values,
               sim::RandomStream random, const ForestOptions& options)
    : points_(points), values_(values), options_(options) {
  for (const Parameter& parameter : space.parameters())
    category_.push_back(parameter.kind == ParameterKind::categorical);
  for (int t = 0; t < options.trees && !points.empty(); ++t) {
    sim::RandomStream stream = random.child(static_cast<std::uint64_t>(t));
    Tree tree;
    tree.seen.assign(points.size(), false);
    std::vector<std::size_t> rows(points.size());
    for (std::size_t& row : rows) {
      row = stream.below(points.size());
      tree.seen[row] = true;
    }
    std::sort(rows.begin(), rows.end());
    (void)grow(tree, rows, 0, stream);
    trees_.push_back(std::move(tree));
  }
  points_ = {};  // the caller's; grown trees need them no more
  values_ = {};
}

bool Forest::goes_left(const Node& node, const Point& point) const {
  const double x = feature(point, node.parameter);
  return category_[node.parameter] ? x == node.split : x <= node.split;
}

double Forest::Tree::at(const Forest& forest, const Point& point) const {
  std::uint32_t here = 0;
  while (nodes[here].left != 0) here = forest.goes_left(nodes[here], point) ? nodes[here].left : nodes[here].right;
  return nodes[here].value;
}

std::uint32_t Forest::grow(Tree& tree, std::span<std::size_t> rows, int depth, sim::RandomStream& random) const {
  const auto index = static_cast<std::uint32_t>(tree.nodes.size());
  Node node;
  for (const std::size_t row : rows) node.value += values_[row];
  node.value /= double(rows.size());
  tree.nodes.push_back(node);
  if (depth >= options_.depth || rows.size() < 2 * options_.least_leaf || !best_split(rows, random, node)) return index;
  const auto middle =
      std::stable_partition(rows.begin(), rows.end(), [&](std::size_t row) { return goes_left(node, points_[row]); });
  const auto cut = static_cast<std::size_t>(middle - rows.begin());
  node.left = grow(tree, rows.first(cut), depth + 1, random);
  node.right = grow(tree, rows.subspan(cut), depth + 1, random);
  tree.nodes[index] = node;
  return index;
}

bool Forest::best_split(std::span<const std::size_t> rows, sim::RandomStream& random, Node& node) const {
  std::vector<std::size_t> parameters(category_.size());
  std::iota(parameters.begin(), parameters.end(), std::size_t{0});
  random.shuffle(std::span(parameters));
  const std::size_t tried = std::max<std::size_t>(1, (parameters.size() + 2) / 3);
  Side all;
  for (const std::size_t row : rows) all.sum += values_[row], ++all.count;
  double best = all.gain() * (1 + 1e-12) + 1e-300;
  bool found = false;
  std::vector<std::pair<double, double>> sorted(rows.size());
  for (std::size_t k = 0; k < parameters.size() && (k < tried || !found); ++k) {
    const std::size_t p = parameters[k];
    for (std::size_t r = 0; r < rows.size(); ++r) sorted[r] = {feature(points_[rows[r]], p), values_[rows[r]]};
    std::sort(sorted.begin(), sorted.end());
    Side left;
    for (std::size_t r = 0; r + 1 < sorted.size(); ++r) {
      if (category_[p] && r > 0 && sorted[r].first != sorted[r - 1].first) left = {};
      left.sum += sorted[r].second;
      ++left.count;
      if (sorted[r].first == sorted[r + 1].first) continue;
      const Side right{all.sum - left.sum, all.count - left.count};
      if (left.count < options_.least_leaf || right.count < options_.least_leaf) continue;
      if (left.gain() + right.gain() <= best) continue;
      best = left.gain() + right.gain();
      found = true;
      node.parameter = p;
      const bool middle = !category_[p] && std::isfinite(sorted[r].first);
      node.split = middle ? sorted[r].first + (sorted[r + 1].first - sorted[r].first) / 2 : sorted[r].first;
    }
  }
  return found;
}

double Forest::predict(const Point& point) const {
  double sum = 0;
  for (const Tree& tree : trees_) sum += tree.at(*this, point);
  return trees_.empty() ? 0 : sum / double(trees_.size());
}

double Forest::predict_unseen(std::size_t i, const Point& point) const {
  double sum = 0;
  std::size_t count = 0;
  for (const Tree& tree : trees_)
    if (!tree.seen[i]) sum += tree.at(*this, point), ++count;
  return count == 0 ? predict(point) : sum / double(count);
}

}  // namespace orrery::experiments::search
