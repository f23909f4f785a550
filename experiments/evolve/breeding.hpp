// Trees from trees: the variation of genetic programming (Koza 1992), within bounds of size and depth.
//
// Every function is pure: what it draws comes from the stream alone. A result that would pass the bounds is drawn
// again, and after kTries times is a parent as it was.
#pragma once

#include "experiments/evolve/tree.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments::evolve {

/// What trees are made of.
struct Material {
  std::vector<std::uint32_t> names;  ///< slots that may be used; at least one
  std::size_t most_nodes = 25;
  std::size_t most_depth = 6;

  bool fits(const Tree& tree) const { return tree.size() <= most_nodes && depth_of(tree) <= most_depth; }
};

inline constexpr int kTries = 20;

/// A tree of that type, at most `depth` deep (and within the bounds): where `full`, all leaves are that deep.
Tree random_tree(const Material& material, Type type, std::size_t depth, bool full, sim::RandomStream& random);
/// A subtree of `a` replaced by one of `b` of the same type.
Tree crossover(const Material& material, const Tree& a, const Tree& b, sim::RandomStream& random);
/// A subtree replaced by a random one.
Tree mutate_subtree(const Material& material, const Tree& tree, sim::RandomStream& random);
/// A node replaced by another with as many arguments, of the same types.
Tree mutate_point(const Material& material, const Tree& tree, sim::RandomStream& random);
/// A number scaled or negated; as mutate_point() where there is none.
Tree mutate_constant(const Material& material, const Tree& tree, sim::RandomStream& random);

}  // namespace orrery::experiments::evolve
