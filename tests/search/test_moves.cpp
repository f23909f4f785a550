// Moves that drivers share.
#include <catch2/catch.hpp>

#include "experiments/search/moves.hpp"
#include "spaces.hpp"

namespace orrery::experiments::search::test_moves {
namespace {

using namespace test;

TEST_CASE("neighbours differ in one parameter, and in what comes to count by it", "[search][moves][prop]") {
  const Space space = mixed_space();
  sim::RandomStream random(1, "test");
  for (int i = 0; i < 2000; ++i) {
    const Point from = space.sample(random).value();
    const auto next = neighbour(space, from, 0.2, random);
    REQUIRE(next);
    CHECK(space.allowed(*next));
    int changed = 0;
    for (const std::size_t p : {0, 2, 3}) changed += (*next)[p] != from[p];
    const bool both = !std::isnan(from[1]) && !std::isnan((*next)[1]);
    CHECK(changed + (both && (*next)[1] != from[1] ? 1 : 0) == 1);
  }
}

TEST_CASE("no neighbour where there is one point", "[search][moves]") {
  Space space;
  add(space, integer("a", 3, 3));
  sim::RandomStream random(1, "test");
  CHECK_FALSE(neighbour(space, {3}, 0.2, random));
}

TEST_CASE("a child takes what counts for it alone from the parent where it counts", "[search][moves]") {
  const Space space = mixed_space();
  sim::RandomStream random(1, "test");
  const Point fcfs = space.canonical({0, 0, 1, 2}), sarathi = space.canonical({1, 2, 4, 3});
  int of_sarathi = 0;
  for (int i = 0; i < 500; ++i) {
    const Point child = crossed(space, fcfs, sarathi, random);
    for (std::size_t p = 0; p < child.size(); ++p)
      if (p != 1) CHECK((child[p] == fcfs[p] || child[p] == sarathi[p]));
    if (child[0] == 1) {
      ++of_sarathi;
      CHECK(child[1] == 2);  // its only value in either parent
    }
  }
  CHECK(of_sarathi > 200);
  CHECK(of_sarathi < 300);
}

TEST_CASE("mutants always differ, at rate 0 in one parameter", "[search][moves][prop]") {
  Space space;
  add(space, categorical("a", {"x", "y", "z"}));
  add(space, ordinal("b", {1, 2, 4}));
  add(space, integer("c", 0, 1000));
  add(space, real("d", -1, 1));
  sim::RandomStream random(2, "test");
  for (int i = 0; i < 500; ++i) {
    const Point from = space.sample(random).value();
    const Point next = mutated(space, from, 0, 0.3, random);
    int changed = 0;
    for (std::size_t p = 0; p < 4; ++p) changed += next[p] != from[p];
    CHECK(changed == 1);
  }
}

TEST_CASE("results find the proposals that they answer", "[search][moves]") {
  Space space;
  add(space, integer("a", 1, 9));
  const auto proposals = [](const std::vector<double>& values) {
    std::vector<Proposal> all;
    for (const double value : values) all.push_back({{value}});
    return all;
  };
  const auto match = [&](const std::vector<double>& asked, const std::vector<double>& told) {
    std::vector<Trial> trials;
    for (Proposal& p : proposals(told)) trials.push_back({std::move(p), {}});
    std::vector<int> found;
    for (const auto& i : answered(space, proposals(asked), trials)) found.push_back(i ? static_cast<int>(*i) : -1);
    return found;
  };
  CHECK(match({1, 2, 3}, {1, 2, 3}) == std::vector<int>{0, 1, 2});
  CHECK(match({1, 2, 3}, {1, 3}) == std::vector<int>{0, 2});         // one lacks
  CHECK(match({1, 2, 3}, {1, 7, 3}) == std::vector<int>{0, -1, 2});  // another in its place
  CHECK(match({5, 5, 5}, {5, 5}) == std::vector<int>{0, 1});         // twins are answered one by one
}

}  // namespace
}  // namespace orrery::experiments::search::test_moves
