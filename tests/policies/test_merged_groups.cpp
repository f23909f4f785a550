// Groups that stay convex: what may merge, what may not, and against a search of all paths on random graphs.
#include "policies/fusion/merged_groups.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "sim/base/random.hpp"

namespace test_merged_groups {

using namespace orrery;
using policies::MergedGroups;
using Edges = std::vector<std::pair<std::int32_t, std::int32_t>>;
using Units = std::vector<std::int32_t>;

namespace {

/// Whether the graph of groups has no cycle: sources are taken away until none is left.
bool acyclic(const Units& group, const Edges& edges) {
  std::set<std::int32_t> left(group.begin(), group.end());
  while (!left.empty()) {
    std::set<std::int32_t> read;
    for (const auto& [from, to] : edges) {
      const std::int32_t a = group[static_cast<std::size_t>(from)], b = group[static_cast<std::size_t>(to)];
      if (a != b && left.contains(a)) read.insert(b);
    }
    const std::size_t before = left.size();
    std::erase_if(left, [&](std::int32_t one) { return !read.contains(one); });
    if (left.size() == before) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("two units merge unless a path goes from one to the other through a third", "[unit]") {
  // 0 -> 1 -> 2, 0 -> 2, and 3 by itself
  MergedGroups groups(4, {{0, 1}, {0, 2}, {1, 2}});
  CHECK(groups.can_merge(0, 1));
  CHECK(groups.can_merge(1, 2));
  CHECK_FALSE(groups.can_merge(0, 2));
  CHECK_FALSE(groups.can_merge(2, 0));  // in either order
  CHECK(groups.can_merge(0, 3));
  CHECK(groups.can_merge(2, 2));                    // one group already
  CHECK(groups.groups() == Units{-1, -1, -1, -1});  // nothing was merged

  CHECK_FALSE(groups.merge(0, 2));
  CHECK(groups.find(0) != groups.find(2));
  CHECK(groups.merge(0, 1));
  CHECK(groups.find(0) == groups.find(1));
  CHECK(groups.can_merge(0, 2));  // the third is a part of the first now
  CHECK(groups.merge(2, 1));
  CHECK(groups.merge(0, 2));  // they are one
  CHECK(groups.groups() == Units{0, 0, 0, -1});
  Units members = groups.members(groups.find(1));
  std::sort(members.begin(), members.end());
  CHECK(members == Units{0, 1, 2});
  CHECK(groups.members(3) == Units{3});
}

TEST_CASE("several units merge at once where no pair of them alone may", "[unit]") {
  // A diamond: 0 -> 1 -> 3, 0 -> 2 -> 3.
  const Edges diamond{{0, 1}, {0, 2}, {1, 3}, {2, 3}};
  MergedGroups groups(4, diamond);
  CHECK_FALSE(groups.merge(0, 3));
  CHECK_FALSE(groups.merge(Units{0, 1, 3}));  // 2 stands between
  CHECK(groups.groups() == Units{-1, -1, -1, -1});
  CHECK(groups.merge(Units{3, 1, 2, 0, 1}));  // whatever the order, and twice
  CHECK(groups.groups() == Units{0, 0, 0, 0});
  CHECK(groups.members(groups.find(0)).size() == 4);
  MergedGroups other(4, diamond);
  CHECK(other.merge(Units{2}));
  CHECK(other.groups() == Units{-1, -1, -1, -1});  // a unit alone is no group
}

TEST_CASE("groups are numbered by their first units", "[unit]") {
  MergedGroups groups(6, {});
  CHECK(groups.merge(5, 3));
  CHECK(groups.merge(4, 1));
  CHECK(groups.merge(3, 2));
  CHECK(groups.groups() == Units{-1, 1, 2, 2, 1, 2});
}

TEST_CASE("two merges of units that do not touch may wait for each other", "[unit]") {
  // 0 -> 2 and 1 -> 3: with 0 and 3 one group, 1 comes before it and 2 after.
  MergedGroups groups(4, {{0, 2}, {1, 3}});
  CHECK(groups.can_merge(1, 2));
  CHECK(groups.merge(0, 3));
  CHECK_FALSE(groups.can_merge(1, 2));
  CHECK_FALSE(groups.merge(2, 1));
  CHECK(groups.merge(1, 0));
  CHECK(groups.merge(2, 3));
  CHECK(groups.groups() == Units{0, 0, 0, 0});
}

TEST_CASE("merges are allowed exactly where the groups stay free of cycles", "[prop]") {
  sim::RandomStream random(3, "groups");
  for (int round = 0; round < 150; ++round) {
    const auto units = static_cast<std::int32_t>(3 + random.below(14));
    Edges edges;
    for (std::int32_t to = 1; to < units; ++to)
      for (std::int32_t from = 0; from < to; ++from)
        if (random.bernoulli(0.2)) edges.emplace_back(from, to);
    MergedGroups groups(static_cast<std::size_t>(units), edges);
    Units slow(static_cast<std::size_t>(units));
    for (std::int32_t i = 0; i < units; ++i) slow[static_cast<std::size_t>(i)] = i;
    for (int step = 0; step < 30; ++step) {
      Units set;
      for (auto left = 2 + random.below(3); left > 0; --left)
        set.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(units))));
      Units merged = slow;
      for (std::int32_t& group : merged)
        for (const std::int32_t unit : set)
          if (group == slow[static_cast<std::size_t>(unit)]) {
            group = slow[static_cast<std::size_t>(set[0])];
            break;
          }
      const bool free = acyclic(merged, edges);
      if (set.size() == 2) REQUIRE(groups.can_merge(set[0], set[1]) == free);
      REQUIRE(groups.merge(set) == free);
      if (free) slow = merged;
      for (std::int32_t i = 0; i < units; ++i)
        for (std::int32_t j = 0; j < i; ++j)
          REQUIRE((groups.find(i) == groups.find(j)) ==
                  (slow[static_cast<std::size_t>(i)] == slow[static_cast<std::size_t>(j)]));
    }
  }
}

}  // namespace test_merged_groups
