// A small random forest for regression over the points of a space: trees on bootstrap samples, each split the best of a
// random third of the parameters (Breiman 2001). Numbers split at a threshold, categories into one and the others; what
// does not count is below every threshold and a category of its own. Deterministic for one stream.
#pragma once

#include <span>
#include <vector>

#include "experiments/search/space.hpp"

namespace orrery::experiments::search {

struct ForestOptions {
  int trees = 64;
  std::size_t least_leaf = 3;  ///< points in a leaf
  int depth = 16;
};

class Forest {
 public:
  Forest(const Space& space, std::span<const Point> points, std::span<const double> values, sim::RandomStream random,
         const ForestOptions& options = {});
  /// Mean over trees.
  double predict(const Point& point) const;
  /// Mean over the trees that did not see training point i; over all if every tree did. `point` may differ from it.
  double predict_unseen(std::size_t i, const Point& point) const;

 private:
  struct Node {
    std::size_t parameter = 0;
    double split = 0;                   ///< below or equal goes left; of a category: equal goes left
    std::uint32_t left = 0, right = 0;  ///< 0: a leaf
    double value = 0;
  };
  struct Tree {
    std::vector<Node> nodes;
    std::vector<bool> seen;
    double at(const Forest& forest, const Point& point) const;
  };
  bool goes_left(const Node& node, const Point& point) const;
  std::uint32_t grow(Tree& tree, std::span<std::size_t> rows, int depth, sim::RandomStream& random) const;
  bool best_split(std::span<const std::size_t> rows, sim::RandomStream& random, Node& node) const;

  std::vector<bool> category_;
  std::span<const Point> points_;
  std::span<const double> values_;
  ForestOptions options_;
  std::vector<Tree> trees_;
};

}  // namespace orrery::experiments::search
