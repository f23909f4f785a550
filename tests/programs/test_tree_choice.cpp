// REBASE's shares by hand, and ETS's integer program against all 2^N choices.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "experiments/systems/serving/programs/tree_choice.hpp"
#include "sim/base/random.hpp"

namespace test_tree_choice {

using namespace orrery;
using namespace orrery::experiments;

namespace {

/// The best of all choices.
double brute_force(const SearchTree& tree, const std::vector<double>& shares, double lambda_c, double lambda_s) {
  double best = -1e18;
  const std::size_t n = tree.leaves.size();
  std::vector<char> keep(n);
  for (std::uint64_t mask = 1; mask < (1ULL << n); ++mask) {
    for (std::size_t i = 0; i < n; ++i) keep[i] = static_cast<char>((mask >> i) & 1);
    best = std::max(best, choice_value(tree, shares, lambda_c, lambda_s, keep));
  }
  return best;
}

/// A tree of up to 8 inner nodes below the root and `most` leaves, whose shares sum up to 1, in clusters across
/// branches.
struct Problem {
  SearchTree tree;
  std::vector<double> shares;
  double lambda_c = 0, lambda_s = 0;
};
Problem random_problem(sim::RandomStream& random, std::uint64_t most = 11) {
  Problem p;
  p.tree.parent.push_back(-1);
  const auto inner = 1 + static_cast<std::int32_t>(random.below(8));
  for (std::int32_t i = 1; i <= inner; ++i)
    p.tree.parent.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(i))));
  const std::size_t n = 1 + random.below(most);
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    p.tree.leaves.push_back(static_cast<std::int32_t>(p.tree.parent.size()));
    p.tree.parent.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(inner + 1))));
    p.shares.push_back(random.exponential(1));
    sum += p.shares.back();
  }
  const std::size_t clusters = 1 + random.below(n);
  for (std::size_t i = 0; i < n; ++i)  // every cluster has a leaf
    p.tree.clusters.push_back(static_cast<std::int32_t>(i < clusters ? i : random.below(clusters)));
  for (double& share : p.shares) share /= sum;
  p.lambda_c = random.uniform(0.2, 4);
  p.lambda_s = random.uniform(0, 2);
  return p;
}

}  // namespace

TEST_CASE("rebase shares: rounded up in falling order until the width is gone", "[unit]") {
  // Equal rewards, 3 leaves, width 4: ceil(4/3) = 2 of 4; ceil(2/2) = 1 of 2; 1.
  CHECK(rebase_shares({0.5, 0.5, 0.5}, 4, 0.2) == std::vector<std::int64_t>{2, 1, 1});
  // Far apart: all to the best.
  CHECK(rebase_shares({0.1, 0.9}, 8, 0.01) == std::vector<std::int64_t>{0, 8});
  // e^(0.2 ln 3 / 0.2) = 3 to 1: ceil(8 * 3/4) = 6, then 2.
  CHECK(rebase_shares({0.2 * 1.0986122886681098, 0}, 8, 0.2) == std::vector<std::int64_t>{6, 2});
  CHECK(rebase_shares({0.3}, 5, 0.2) == std::vector<std::int64_t>{5});
  // Ties go by index, and who comes late gets nothing.
  CHECK(rebase_shares({0.1, 0.5, 0.5}, 1, 0.2) == std::vector<std::int64_t>{0, 1, 0});
  CHECK(rebase_shares({0.5, 0.5, 0.5, 0.5}, 3, 0.2) == std::vector<std::int64_t>{1, 1, 1, 0});
  // Only differences count: e^(1e5) would be infinite.
  CHECK(rebase_shares({1e4, 1e4}, 8, 0.1) == std::vector<std::int64_t>{4, 4});
}

TEST_CASE("the objective by hand", "[unit]") {
  // root 0 - a 1 - leaves 2, 3; root - b 4 - leaf 5. N = 3, M = 3: a node costs 1 / 6. Clusters {2, 3}, {5}: 1.5 / 2
  // each.
  const SearchTree tree{{-1, 0, 1, 1, 0, 4}, {2, 3, 5}, {0, 0, 1}};
  const std::vector<double> shares{0.5, 0.3, 0.2};
  // Leaf 2 alone: 0.5 + 0.75 - (leaf, a, root) 3 / 6 = 0.75.
  CHECK(choice_value(tree, shares, 1, 1.5, {1, 0, 0}) == Approx(0.75));
  // All: 1 + 1.5 - 1 = 1.5. Without leaf 3: 0.7 + 1.5 - 5 / 6 = 1.3667.
  CHECK(choice_value(tree, shares, 1, 1.5, {1, 1, 1}) == Approx(1.5));
  CHECK(choice_value(tree, shares, 1, 1.5, {1, 0, 1}) == Approx(2.2 - 5.0 / 6));
  const TreeChoice choice = choose_leaves(tree, shares, 1, 1.5);
  CHECK(choice.exact());
  CHECK(choice.keep == std::vector<char>{1, 1, 1});
  // Without clusters there is no bonus: 1 - 1 for all, and 0.5 - 3 / 6 for leaf 2.
  const SearchTree plain{tree.parent, tree.leaves, {}};
  CHECK(choice_value(plain, shares, 1, 1.5, {1, 1, 1}) == Approx(0).margin(1e-12));
  CHECK(choice_value(plain, shares, 0.6, 1.5, {1, 0, 0}) == Approx(0.5 - 0.3));
  CHECK(choose_leaves(plain, shares, 0.6, 1.5).keep == std::vector<char>{1, 1, 1});  // 1 - 0.6; less for fewer
  // Nodes so dear that none is worth it: still one is kept, the one that costs least.
  const TreeChoice dear = choose_leaves(tree, shares, 100, 0);
  CHECK(std::count(dear.keep.begin(), dear.keep.end(), 1) == 1);
  CHECK(dear.keep[0] == 1);
}

TEST_CASE("choices are optimal on random trees, clusters across branches included", "[prop]") {
  sim::RandomStream random(3, "trees");
  for (int round = 0; round < 120; ++round) {
    const Problem p = random_problem(random);
    const TreeChoice choice = choose_leaves(p.tree, p.shares, p.lambda_c, p.lambda_s, 100'000);
    CHECK(choice.exact());
    CHECK(choice.value == Approx(brute_force(p.tree, p.shares, p.lambda_c, p.lambda_s)).margin(1e-9));
    CHECK(choice.value == Approx(choice_value(p.tree, p.shares, p.lambda_c, p.lambda_s, choice.keep)).margin(1e-12));
  }
}

TEST_CASE("choices are optimal where there are no clusters, in one node if any of them is worth it", "[prop]") {
  sim::RandomStream random(8, "trees");
  for (int round = 0; round < 60; ++round) {
    Problem p = random_problem(random);
    p.tree.clusters.clear();
    const TreeChoice choice = choose_leaves(p.tree, p.shares, p.lambda_c, p.lambda_s);
    CHECK(choice.exact());
    if (choice.value > 0) CHECK(choice.nodes == 1);
    CHECK(choice.value == Approx(brute_force(p.tree, p.shares, p.lambda_c, p.lambda_s)).margin(1e-9));
  }
}

TEST_CASE("branches that no leaf stands under cost nothing", "[prop]") {
  sim::RandomStream random(9, "trees");
  for (int round = 0; round < 40; ++round) {
    const Problem p = random_problem(random);
    SearchTree dead = p.tree;
    for (int i = 0; i < 5; ++i) dead.parent.push_back(static_cast<std::int32_t>(random.below(dead.parent.size())));
    // Dead nodes under a leaf make it no ancestor of a leaf either.
    const TreeChoice choice = choose_leaves(p.tree, p.shares, p.lambda_c, p.lambda_s);
    const TreeChoice other = choose_leaves(dead, p.shares, p.lambda_c, p.lambda_s);
    CHECK(other.value == choice.value);
    CHECK(other.keep == choice.keep);
    CHECK(other.nodes == choice.nodes);
  }
}

TEST_CASE("a search takes no more nodes than it did, and tells how far it is", "[golden]") {
  const auto effort = [](std::int64_t most_nodes) {
    sim::RandomStream random(11, "trees");
    std::int64_t nodes = 0, exact = 0;
    double value = 0, bound = 0;
    for (int round = 0; round < 150; ++round) {
      const Problem p = random_problem(random, 24);
      const TreeChoice choice = choose_leaves(p.tree, p.shares, p.lambda_c, p.lambda_s, most_nodes);
      CHECK(choice.nodes <= most_nodes);
      CHECK(choice.bound >= choice.value);
      nodes += choice.nodes;
      exact += choice.exact() ? 1 : 0;
      value += choice.value;
      bound += choice.bound;
    }
    return fmt::format("{} nodes, {} exact, {:.6f} to {:.6f}", nodes, exact, value, bound);
  };
  CHECK(effort(1) == "150 nodes, 92 exact, 83.361061 to 101.557139");
  CHECK(effort(4) == "312 nodes, 104 exact, 84.477663 to 97.020675");
  CHECK(effort(100'000) == "1122 nodes, 150 exact, 85.409403 to 85.409403");
}

TEST_CASE("without a search the best is all leaves or one of them", "[prop]") {
  // Nodes so dear that all is bad: 3 leaves under the root and one 2 nodes further down, M + N = 7. A leaf under the
  // root costs 2 x 14 / 7 = 4, the one further down 8; shares 0.1, 0.3, 0.2, 0.4.
  const SearchTree tree{{-1, 0, 0, 0, 0, 4, 5}, {1, 2, 3, 6}, {0, 1, 2, 3}};
  const std::vector<double> shares{0.1, 0.3, 0.2, 0.4};
  const TreeChoice dear = choose_leaves(tree, shares, 14, 0, 0);
  CHECK(dear.nodes == 0);
  CHECK(dear.keep == std::vector<char>{0, 1, 0, 0});
  CHECK(dear.value == Approx(0.3 - 4));
  CHECK(choose_leaves(tree, shares, 0, 1, 0).keep == std::vector<char>{1, 1, 1, 1});  // nodes for nothing
  sim::RandomStream random(7, "no search");
  for (int round = 0; round < 200; ++round) {
    SearchTree some{{-1}, {}, {}};
    std::vector<double> parts;
    for (std::int32_t i = 0; i < 6; ++i) {
      some.parent.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(i) + 1)));
      some.parent.push_back(static_cast<std::int32_t>(some.parent.size()) - 1);
    }
    for (std::int32_t i = 0; i < 6; ++i) {
      some.leaves.push_back(static_cast<std::int32_t>(some.parent.size()));
      some.parent.push_back(static_cast<std::int32_t>(random.below(13)));
      some.clusters.push_back(i % 3);
      parts.push_back(random.uniform() / 3);
    }
    const double lambda_c = random.uniform(0.2, 6), lambda_s = random.uniform(0, 2);
    const TreeChoice choice = choose_leaves(some, parts, lambda_c, lambda_s, 0);
    double best = choice_value(some, parts, lambda_c, lambda_s, std::vector<char>(6, 1));
    for (std::size_t i = 0; i < 6; ++i) {
      std::vector<char> one(6, 0);
      one[i] = 1;
      best = std::max(best, choice_value(some, parts, lambda_c, lambda_s, one));
    }
    CHECK(choice.value == Approx(best).margin(1e-12));
    CHECK(choice.value == Approx(choice_value(some, parts, lambda_c, lambda_s, choice.keep)).margin(1e-12));
  }
}

TEST_CASE("a search that is cut short says so", "[unit]") {
  sim::RandomStream random(5, "trees");
  SearchTree tree;
  tree.parent.push_back(-1);
  std::vector<double> shares;
  for (std::int32_t i = 0; i < 12; ++i) tree.parent.push_back(0);
  for (std::int32_t i = 0; i < 64; ++i) {
    tree.leaves.push_back(static_cast<std::int32_t>(tree.parent.size()));
    tree.parent.push_back(1 + i % 12);
    tree.clusters.push_back(i % 16);
    shares.push_back(random.uniform() / 32);
  }
  const TreeChoice one = choose_leaves(tree, shares, 2, 1.5, 1);
  const TreeChoice many = choose_leaves(tree, shares, 2, 1.5, 5000);
  CHECK(one.nodes == 1);
  CHECK(many.value >= one.value - 1e-12);
  CHECK(many.bound <= one.bound + 1e-9);
  CHECK(one.bound >= one.value);
}

}  // namespace test_tree_choice
