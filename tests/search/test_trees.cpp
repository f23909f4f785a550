// Beam, tree search, ant colony: searches over parameters in order.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "quality.hpp"

namespace orrery::experiments::search::test_trees {
namespace {

using namespace test;

Space four_by_five() {
  Space space;
  for (int i = 0; i < 4; ++i) add(space, ordinal(fmt::format("x{}", i), {0, 1, 2, 3, 4}));
  return space;
}

std::vector<Trial> tell(Driver& driver, const std::vector<Proposal>& batch, const Evaluate& evaluate) {
  std::vector<Trial> trials;
  for (const Proposal& proposal : batch) trials.push_back({proposal, evaluate(proposal)});
  driver.tell(trials);
  return trials;
}

TEST_CASE("a beam of one is coordinate descent", "[search][beam]") {
  const Space space = four_by_five();
  const auto bowl = [](const Proposal& p) {
    double sum = 0;
    for (const double x : p.point) sum += (x - 3) * (x - 3);
    return Evaluation{.objectives = {sum}};
  };
  const auto driver = make_driver("beam", {.space = &space}, R"({"width": 1})");
  const auto start = tell(*driver, driver->ask(100), bowl);
  REQUIRE(start.size() == 1);
  // One pass: each parameter's other four values, one after another, and every one ends at 3.
  for (std::size_t p = 0; p < 4; ++p) {
    const auto batch = driver->ask(100);
    REQUIRE(batch.size() == 4);
    for (const Proposal& proposal : batch)
      for (std::size_t other = 0; other < 4; ++other)
        if (other != p) CHECK(proposal.point[other] == (other < p ? 3 : start[0].proposal.point[other]));
    tell(*driver, batch, bowl);
  }
}

TEST_CASE("a wider beam passes over a ridge that stops a narrow one", "[search][beam]") {
  // x0 = 4 is good only with x1 = 4: a beam of one turns it down before it comes to x1.
  const Space space = four_by_five();
  const auto ridge = [](const Proposal& p) {
    const double pair = p.point[0] == 4 ? (p.point[1] == 4 ? -20 : 2) : p.point[0];
    return Evaluation{.objectives = {pair + p.point[1] + p.point[2] + p.point[3]}};
  };
  const auto evaluations = [&](const char* params) {
    std::vector<double> counts;
    for (std::uint64_t seed = 1; seed <= 9; ++seed) {
      UniqueDriver driver(make_driver("beam", {.space = &space, .random = {seed, "driver"}}, params), space,
                          {seed, "unique"});
      const auto trials = run_search(driver, on_threads(ridge, 1), {.budget = 625, .batch = 4});
      const auto best = std::find_if(trials.begin(), trials.end(),
                                     [](const Trial& trial) { return trial.result.objectives[0] == -16; });
      counts.push_back(static_cast<double>(best - trials.begin() + 1));
    }
    return quartiles(std::move(counts));
  };
  const Quality narrow = evaluations(R"({"width": 1})"), wide = evaluations(R"({"width": 5})");
  INFO("narrow " << text_of(narrow) << ", wide " << text_of(wide));
  CHECK(wide.median < narrow.median);
}

TEST_CASE("tree search exhausts a finite space, no point twice, and stops", "[search][mcts]") {
  Space space;
  add(space, categorical("policy", {"fcfs", "sarathi"}));
  add(space, ordinal("budget", {256, 512, 1024}), "policy == \"sarathi\"");
  add(space, integer("tp", 1, 4));
  constrain(space, "tp != 3");
  const auto driver = make_driver("mcts", {.space = &space}, R"({"guided": 0})");
  const auto value = [](const Proposal& p) { return Evaluation{.objectives = {p.point[0] + p.point[2]}}; };
  std::set<std::string> seen;
  int rounds = 0;
  for (auto batch = driver->ask(3); !batch.empty(); batch = driver->ask(3), ++rounds)
    for (const Trial& trial : tell(*driver, batch, value)) seen.insert(space.key(trial.proposal.point));
  CHECK(seen.size() == 12);  // (1 + 3) * 3
  CHECK(rounds < 100);
}

TEST_CASE("tree search looks most where it is good", "[search][mcts]") {
  Space space;
  add(space, categorical("first", {"a", "b", "c", "d"}));
  add(space, real("x", 0, 1));
  const auto value = [](const Proposal& p) {
    return Evaluation{.objectives = {(p.point[0] == 2 ? 0 : 5) + p.point[1]}};
  };
  const auto driver = make_driver("mcts", {.space = &space});
  std::map<double, int> visits;
  for (int i = 0; i < 100; ++i)
    for (const Trial& trial : tell(*driver, driver->ask(4), value)) ++visits[trial.proposal.point[0]];
  CHECK(visits[2] > 200);  // of 400
  for (const double other : {0, 1, 3}) CHECK(visits[other] > 0);
}

TEST_CASE("pheromone gathers on good values, and no value dies out", "[search][ants]") {
  const Space space = four_by_five();
  const auto value = [](const Proposal& p) { return Evaluation{.objectives = {-p.point[0]}}; };
  const auto driver = make_driver("ant_colony", {.space = &space}, R"({"greediness": 0})");
  for (int i = 0; i < 30; ++i) tell(*driver, driver->ask(16), value);
  std::map<double, int> first;
  for (int i = 0; i < 60; ++i)
    for (const Proposal& proposal : driver->ask(16)) ++first[proposal.point[0]];
  CHECK(first[4] > 900);    // of 960
  CHECK(first.size() > 1);  // at least 0.02 / 5 of every other
}

}  // namespace
}  // namespace orrery::experiments::search::test_trees
