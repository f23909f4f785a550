// Bottleneck-guided search against drivers that do not ask why, and against itself without remedies.
#include <catch2/catch.hpp>

#include "quality.hpp"

namespace orrery::experiments::search::test_bottleneck {
namespace {

using namespace test;

constexpr std::int64_t kBudget = 1500;

/// Evaluations until a feasible result is within 5 % of the optimum; over seeds.
Quality evaluations(const Problem& problem, const std::string& driver, const std::string& params) {
  std::vector<double> counts;
  for (std::uint64_t seed = 1; seed <= 9; ++seed) {
    const auto trials = search_problem(problem, driver, params, {.budget = kBudget, .batch = 1}, seed);
    const auto good = std::find_if(trials.begin(), trials.end(), [&](const Trial& trial) {
      return trial.result.feasible() && trial.result.objectives[0] <= 1.05 * *problem.optimum;
    });
    counts.push_back(static_cast<double>(good - trials.begin() + 1));
  }
  return quartiles(std::move(counts));
}

/// The accelerator with 15 parameters more, that do nothing, before, between and behind its own.
Problem with_decoys() {
  Problem accelerator = make_problem("bottleneck");
  Problem problem{.name = "decoys", .doc = "", .limits = 1, .optimum = accelerator.optimum};
  for (std::size_t i = 0; i < 20; ++i) {
    Parameter parameter = accelerator.space.parameters()[i / 4];
    if (i % 4 != 1) parameter.name = fmt::format("decoy{}", i);
    add(problem.space, std::move(parameter));
  }
  problem.evaluate = [evaluate = accelerator.evaluate](const Proposal& p) {
    Proposal own{Point(5), p.fidelity};
    for (std::size_t i = 0; i < 5; ++i) own.point[i] = p.point[4 * i + 1];
    return evaluate(own);
  };
  for (const auto& [part, parameters] : accelerator.remedies) {
    std::vector<std::size_t> moved;
    for (const std::size_t p : parameters) moved.push_back(4 * p + 1);
    problem.remedies.emplace_back(part, std::move(moved));
  }
  return problem;
}

TEST_CASE("asking why takes fewer evaluations than not asking", "[search][bottleneck]") {
  const Problem problem = make_problem("bottleneck");
  const Quality ours = evaluations(problem, "bottleneck", R"({"start": "random"})");
  for (const char* other : {"random", "hill_climbing", "annealing"}) {
    const Quality theirs = evaluations(problem, other, "{}");
    INFO(other << ": " << text_of(theirs) << ", bottleneck: " << text_of(ours));
    CHECK(2 * ours.median < theirs.median);
  }
}

TEST_CASE("remedies that name the wrong parameters cost evaluations", "[search][bottleneck]") {
  Problem problem = make_problem("bottleneck");
  const Quality right = evaluations(problem, "bottleneck", R"({"start": "random"})");
  problem.remedies = {{"compute", {3}}, {"memory", {0}}, {"network", {1}}};
  const Quality wrong = evaluations(problem, "bottleneck", R"({"start": "random"})");
  INFO("right " << text_of(right) << ", wrong " << text_of(wrong));
  CHECK(1.5 * right.median < wrong.median);
}

TEST_CASE("where many parameters do nothing it is the remedies that count", "[search][bottleneck]") {
  Problem problem = with_decoys();
  const Quality named = evaluations(problem, "bottleneck", R"({"start": "random"})");
  problem.remedies.clear();
  const Quality blind = evaluations(problem, "bottleneck", R"({"start": "random"})");
  INFO("with remedies " << text_of(named) << ", without " << text_of(blind));
  CHECK(2 * named.median < blind.median);
}

TEST_CASE("the largest part of the breakdown is moved first", "[search][bottleneck]") {
  Space space;
  for (const char* name : {"lanes", "links", "other"}) add(space, ordinal(name, {1, 2, 4, 8}));
  const auto driver = make_driver("bottleneck", {.space = &space, .remedies = {{"compute", {0}}, {"network", {1}}}},
                                  R"({"start": "first", "ends": false})");
  const auto first = driver->ask(8);
  REQUIRE(first.size() == 1);
  CHECK(first[0].point == Point{0, 0, 0});
  driver->tell(
      std::vector<Trial>{{first[0], {.objectives = {10}, .breakdown = {{"compute", 3}, {"idle", 9}, {"network", 7}}}}});
  const auto second = driver->ask(8);
  REQUIRE(second.size() == 1);  // down is beyond the end
  CHECK(second[0].point == Point{0, 1, 0});
  // It helped; now compute is the largest part there.
  driver->tell(std::vector<Trial>{{second[0], {.objectives = {6}, .breakdown = {{"compute", 3}, {"network", 2}}}}});
  CHECK(driver->ask(8)[0].point == Point{1, 1, 0});
}

TEST_CASE("a move goes to the end of an order at once", "[search][bottleneck]") {
  Space space;
  add(space, ordinal("copies", {1, 2, 4, 8}));
  add(space, integer("tiles", 1, 9));
  add(space, categorical("pipeline", {"off", "coarse", "fine"}));
  const auto moves = [&](const char* ends, std::size_t which) {
    const auto driver = make_driver("bottleneck", {.space = &space, .remedies = {{"compute", {which}}}},
                                    fmt::format(R"({{"start": "first", "ends": {}}})", ends));
    const auto first = driver->ask(8);
    driver->tell(std::vector<Trial>{{first[0], {.objectives = {10}, .breakdown = {{"compute", 3}}}}});
    std::vector<double> values;
    for (const Proposal& proposal : driver->ask(8)) values.push_back(proposal.point[which]);
    return values;
  };
  // Up, to the end, and down, which is beyond the other end.
  CHECK(moves("true", 0) == std::vector<double>{1, 3});
  CHECK(moves("false", 0) == std::vector<double>{1});
  CHECK(moves("true", 1) == std::vector<double>{2, 9});
  CHECK(moves("true", 2) == std::vector<double>{1, 2});  // choices without an order: all others, either way
}

TEST_CASE("a finite difference prefers the gain that costs less", "[search][bottleneck]") {
  Space space;
  add(space, categorical("unit", {"none", "cheap", "dear"}));
  add(space, ordinal("size", {1, 2, 4}));
  const auto next = [&](const std::string& quality) {
    const auto driver = make_driver("bottleneck", {.space = &space, .objectives = 2, .remedies = {{"compute", {0}}}},
                                    fmt::format(R"({{"start": "first", "quality": "{}"}})", quality));
    const auto tell = [&](const std::vector<Proposal>& batch, const std::vector<std::vector<double>>& objectives) {
      std::vector<Trial> trials;
      for (std::size_t i = 0; i < batch.size(); ++i)
        trials.push_back({batch[i], {.objectives = objectives[i], .breakdown = {{"other", 1}}}});
      driver->tell(trials);
    };
    tell(driver->ask(4), {{10, 1}});
    tell(driver->ask(4), {{8, 2}, {7, 9}});  // cheap gains 2 for 1, dear 3 for 8
    return driver->ask(4)[0].point[0];
  };
  CHECK(next("finite_difference") == 1);
  CHECK(next("performance") == 2);
}

}  // namespace
}  // namespace orrery::experiments::search::test_bottleneck
