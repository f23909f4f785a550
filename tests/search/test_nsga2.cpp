// NSGA-II: choices, conditions, limits, one objective. Hypervolumes stand in test_quality.cpp and oracle_pagmo.cpp.
#include <catch2/catch.hpp>
#include <set>

#include "quality.hpp"

namespace orrery::experiments::search::test_nsga2 {
namespace {

using namespace test;

TEST_CASE("the whole front of a mixed conditional space is found", "[search][nsga2]") {
  // Cost against time: plain takes time 16 / tp at cost tp; turbo (which counts `gear`) 10 / (tp gear) at tp + 3 gear;
  // waste is added to both.
  Space space;
  add(space, categorical("mode", {"plain", "turbo"}));
  add(space, integer("tp", 1, 32));
  add(space, ordinal("gear", {1, 2, 4, 8}), "mode == \"turbo\"");
  add(space, integer("waste", 0, 7));
  const auto evaluate = [&](const Proposal& p) {
    const std::vector<double> x = space.numbers(p.point);
    if (x[0] == 0) return Evaluation{.objectives = {16 / x[1] + x[3], x[1] + x[3]}};
    return Evaluation{.objectives = {10 / (x[1] * x[2]) + x[3], x[1] + 3 * x[2] + x[3]}};
  };
  const auto front = [](const std::vector<Trial>& trials) {
    std::set<std::vector<double>> best;
    for (const Trial& a : trials)
      if (std::none_of(trials.begin(), trials.end(), [&](const Trial& b) { return dominates(b.result, a.result); }))
        best.insert(a.result.objectives);
    return best;
  };
  std::vector<Trial> all;
  for (std::uint64_t i = 0; i < space.grid_size().value(); ++i) {
    const Proposal proposal{space.grid_point(i)};
    all.push_back({proposal, evaluate(proposal)});
  }
  const auto truth = front(all);
  REQUIRE(truth.size() > 10);
  // (1 + 4) * 32 * 8 = 1,280 points in all; 400 evaluations, of which random ones would find a third of the front.
  std::vector<double> found;
  for (std::uint64_t seed = 1; seed <= 7; ++seed) {
    UniqueDriver driver(
        make_driver("nsga2", {.space = &space, .objectives = 2, .random = {seed, "driver"}}, R"({"population": 20})"),
        space, {seed, "unique"});
    const auto reached = front(run_search(driver, on_threads(evaluate, 1), {.budget = 400, .batch = 10}));
    int both = 0;
    for (const auto& point : reached) both += truth.contains(point);
    found.push_back(both / static_cast<double>(truth.size()));
  }
  INFO(text_of(quartiles(found)) << " of " << truth.size());
  CHECK(quartiles(found).median > 0.8);
}

TEST_CASE("limits come before objectives", "[search][nsga2]") {
  const Space space = corner_space();
  const auto evaluate = [](const Proposal& p) { return in_corner(p, 2); };
  UniqueDriver driver(make_driver("nsga2", {.space = &space, .objectives = 2, .limits = 1}, R"({"population": 40})"),
                      space, {1, "unique"});
  const auto trials = run_search(driver, on_threads(evaluate, 1), {.budget = 3000, .batch = 40});
  CHECK(best_of(trials) == Approx(5.4).epsilon(0.02));  // 6 * 0.9; a random point is feasible once in 10^6
}

TEST_CASE("one objective is a case of several", "[search][nsga2]") {
  CHECK(quality("sphere", "nsga2", R"({"population": 20})", {.budget = 2000, .batch = 20}, 4).median < 0.01);
}

}  // namespace
}  // namespace orrery::experiments::search::test_nsga2
