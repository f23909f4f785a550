#include "experiments/evolve/breeding.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::experiments::evolve {

namespace {

using Kind = TreeNode::Kind;

constexpr double kNumberShare = 0.25;  // of leaves that are numbers
constexpr double kLeafShare = 0.3;     // of inner places that end a branch where a tree need not be full
constexpr double kInnerShare = 0.9;    // of crossover points that are no leaves (Koza 1992)
constexpr std::array kDigits{1.0, 2.0, 5.0};
constexpr std::array kPowers{1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4};
constexpr std::array kFactors{-1.0, 0.5, 0.8, 0.9, 1.1, 1.25, 2.0};

template <class List>
auto one_of(const List& list, sim::RandomStream& random) {
  return list[random.below(list.size())];
}

TreeNode leaf(const Material& material, sim::RandomStream& random) {
  if (!random.bernoulli(kNumberShare)) return {.kind = Kind::name, .index = one_of(material.names, random)};
  return {.kind = Kind::number, .number = one_of(kDigits, random) * one_of(kPowers, random)};
}

void grow(const Material& material, Type type, std::size_t depth, bool full, sim::RandomStream& random, Tree& out) {
  // No leaf is a truth, so that one a level above the last is a comparison.
  if (type == Type::number && (depth <= 1 || (!full && random.bernoulli(kLeafShare))))
    return out.push_back(leaf(material, random));
  std::vector<std::uint32_t> fitting;
  for (std::uint32_t i = 0; i < kFunctions.size(); ++i) {
    const Function& one = kFunctions[i];
    const std::size_t needs = one.first == Type::truth ? 3 : 2;
    if (one.bred && one.result == type && (needs <= depth || (type == Type::truth && needs == 2))) fitting.push_back(i);
  }
  if (fitting.empty()) return out.push_back(leaf(material, random));
  const std::uint32_t chosen = one_of(fitting, random);
  const Function& function = kFunctions[chosen];
  out.push_back({.kind = Kind::function, .index = chosen});
  for (std::size_t i = 0; i < function.arguments; ++i)
    grow(material, i == 0 ? function.first : function.others, std::max<std::size_t>(depth, 2) - 1, full, random, out);
}

/// A node of the tree of that type; inner ones are likelier. Nothing if there is none.
std::optional<std::size_t> place(const Tree& tree, std::optional<Type> type, sim::RandomStream& random) {
  std::vector<std::size_t> inner, leaves;
  for (std::size_t i = 0; i < tree.size(); ++i)
    if (!type || tree[i].type() == *type) (tree[i].arguments() > 0 ? inner : leaves).push_back(i);
  if (inner.empty() && leaves.empty()) return std::nullopt;
  const bool in = leaves.empty() || (!inner.empty() && random.bernoulli(kInnerShare));
  return one_of(in ? inner : leaves, random);
}

/// Draws until a result is within the bounds; else the tree as it was.
template <class Draw>
Tree bounded(const Material& material, const Tree& tree, const Draw& draw) {
  for (int i = 0; i < kTries; ++i)
    if (Tree result = draw(); !result.empty() && material.fits(result)) return result;
  return tree;
}

bool alike(const Function& a, const Function& b) {
  return a.arguments == b.arguments && a.result == b.result && a.first == b.first && a.others == b.others;
}

}  // namespace

Tree random_tree(const Material& material, Type type, std::size_t depth, bool full, sim::RandomStream& random) {
  depth = std::min(depth, material.most_depth);
  for (int i = 0; i<kTries; ++i, depth -= depth> 2 && i % 4 == 3 ? 1 : 0) {
    Tree tree;
    grow(material, type, depth, full, random, tree);
    if (material.fits(tree)) return tree;
  }
  return {leaf(material, random)};
}

Tree crossover(const Material& material, const Tree& a, const Tree& b, sim::RandomStream& random) {
  return bounded(material, a, [&]() -> Tree {
    const std::size_t at = *place(a, std::nullopt, random);
    const auto from = place(b, a[at].type(), random);
    if (!from) return {};
    return replaced(a, at, std::span(b).subspan(*from, end_of(b, *from) - *from));
  });
}

Tree mutate_subtree(const Material& material, const Tree& tree, sim::RandomStream& random) {
  return bounded(material, tree, [&] {
    const std::size_t at = *place(tree, std::nullopt, random);
    const std::size_t depth = 1 + random.below(3);
    return replaced(tree, at, random_tree(material, tree[at].type(), depth, false, random));
  });
}

Tree mutate_point(const Material& material, const Tree& tree, sim::RandomStream& random) {
  Tree result = tree;
  TreeNode& node = result[random.below(result.size())];
  if (node.arguments() == 0) {
    node = leaf(material, random);
    return result;
  }
  std::vector<std::uint32_t> others;
  for (std::uint32_t i = 0; i < kFunctions.size(); ++i)
    if (kFunctions[i].bred && i != node.index && alike(kFunctions[i], kFunctions[node.index])) others.push_back(i);
  if (!others.empty()) node.index = one_of(others, random);
  return result;
}

Tree mutate_constant(const Material& material, const Tree& tree, sim::RandomStream& random) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < tree.size(); ++i)
    if (tree[i].kind == Kind::number) numbers.push_back(i);
  if (numbers.empty()) return mutate_point(material, tree, random);
  Tree result = tree;
  double& number = result[one_of(numbers, random)].number;
  number *= one_of(kFactors, random);
  if (!(std::abs(number) > 1e-9 && std::abs(number) < 1e9)) number = one_of(kDigits, random);
  return result;
}

}  // namespace orrery::experiments::evolve
