// The search loop: order, threads, resume, no point twice.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "experiments/search/unique.hpp"
#include "spaces.hpp"

namespace orrery::experiments::search::test_search_loop {
namespace {

using namespace test;

Evaluation bowl(const Proposal& proposal) {
  double sum = 0;
  for (const double x : proposal.point)
    if (!std::isnan(x)) sum += x * x;
  return {.objectives = {sum}};
}

TEST_CASE("a grid visits every allowed point once", "[search]") {
  Space space;
  add(space, categorical("policy", {"fcfs", "sarathi"}));
  add(space, ordinal("budget", {256, 512}), "policy == \"sarathi\"");
  add(space, integer("tp", 1, 3));
  constrain(space, "tp != 2");
  const auto driver = make_driver("grid", {.space = &space});
  const auto trials = run_search(*driver, on_threads(bowl, 1), {.budget = 100, .batch = 4});
  CHECK(trace_of(space, trials) ==
        "policy=fcfs, tp=1\npolicy=fcfs, tp=3\n"
        "policy=sarathi, budget=256, tp=1\npolicy=sarathi, budget=256, tp=3\n"
        "policy=sarathi, budget=512, tp=1\npolicy=sarathi, budget=512, tp=3\n");
}

TEST_CASE("random search does not depend on the number of threads", "[search]") {
  const Space space = mixed_space();
  std::set<std::string> traces;
  for (const std::size_t jobs : {1, 2, 5}) {
    UniqueDriver driver(make_driver("random", {.space = &space}), space, {1, "unique"});
    traces.insert(trace_of(space, run_search(driver, on_threads(bowl, jobs), {.budget = 60, .batch = 7})));
  }
  CHECK(traces.size() == 1);
}

TEST_CASE("a search goes on over what an earlier one committed", "[search]") {
  const Space space = mixed_space();
  const auto search = [&](std::int64_t stop_after, std::map<std::string, Evaluation>& store, int& runs) {
    UniqueDriver driver(make_driver("random", {.space = &space}), space, {1, "unique"});
    SearchOptions options{.budget = 40, .batch = 8};
    options.known = [&](const Proposal& p) -> std::optional<Evaluation> {
      const auto found = store.find(space.key(p.point));
      return found == store.end() ? std::nullopt : std::optional(found->second);
    };
    options.commit = [&](const Trial& trial) { store.emplace(space.key(trial.proposal.point), trial.result); };
    options.stop = [&] { return runs >= stop_after; };
    return run_search(driver, on_threads([&](const Proposal& p) { return ++runs, bowl(p); }, 1), options);
  };
  std::map<std::string, Evaluation> whole, parts;
  int runs = 0, first = 0, second = 0;
  const auto straight = search(1000, whole, runs);
  (void)search(16, parts, first);
  const auto resumed = search(1000, parts, second);
  CHECK(first == 16);
  CHECK(second == 24);  // 40 - 16: nothing is run again
  CHECK(trace_of(space, straight) == trace_of(space, resumed));
}

TEST_CASE("a small space is exhausted without a repeat, then the search ends", "[search]") {
  Space space;
  add(space, integer("a", 1, 7));
  add(space, integer("b", 1, 11));
  UniqueDriver driver(make_driver("random", {.space = &space}), space, {1, "unique"});
  const auto trials = run_search(driver, on_threads(bowl, 1), {.budget = 1000, .batch = 5});
  std::set<std::string> seen;
  for (const Trial& trial : trials) seen.insert(space.key(trial.proposal.point));
  CHECK(trials.size() == 77);  // 7 * 11
  CHECK(seen.size() == 77);
}

TEST_CASE("a space that allows nothing ends at once", "[search]") {
  Space space;
  add(space, integer("a", 1, 7));
  constrain(space, "a > 9");
  UniqueDriver driver(make_driver("random", {.space = &space}), space, {1, "unique"});
  CHECK(run_search(driver, on_threads(bowl, 1), {.budget = 10}).empty());
}

TEST_CASE("points so few that no draw finds them are found by a walk", "[search]") {
  Space space;
  add(space, integer("a", 1, 1000));
  add(space, integer("b", 1, 1000));
  constrain(space, "a == 400 && b >= 999");  // two of a million
  for (const char* name : {"random", "genetic", "mcmc", "cma_es"}) {
    INFO(name);
    UniqueDriver driver(make_driver(name, {.space = &space}), space, {1, "unique"});
    const auto trials = run_search(driver, on_threads(bowl, 1), {.budget = 10, .batch = 4});
    REQUIRE(trials.size() == 2);
    CHECK(trials[0].proposal.point == Point{400, 999});
    CHECK(trials[1].proposal.point == Point{400, 1000});
  }
}

TEST_CASE("first points are told in batches, free ones cost nothing of the budget", "[search]") {
  /// Notes how many it is told at a time, and asks for the value 9.
  struct Noting final : Driver {
    std::vector<std::size_t> told;
    std::vector<Proposal> ask(std::size_t most) override { return std::vector<Proposal>(most, Proposal{{9}}); }
    void tell(std::span<const Trial> trials) override { told.push_back(trials.size()); }
  } driver;
  SearchOptions options{.budget = 6, .batch = 3};
  options.first = {{{1}}, {{2}}, {{3}}, {{4}}, {{5}}};
  options.free = 4;
  const auto trials = run_search(driver, on_threads(bowl, 1), options);
  CHECK(trials.size() == 10);  // 6 and the 4 that are free
  CHECK(driver.told == std::vector<std::size_t>{3, 1, 1, 3, 2});
  CHECK(trials[4].proposal.point == Point{5});
  CHECK(trials[5].proposal.point == Point{9});
}

TEST_CASE("what counts as gain", "[search]") {
  const auto trial = [](std::vector<double> objectives, double violation = 0, double fidelity = 1) {
    return Trial{{{}, fidelity}, {.objectives = std::move(objectives), .margins = {violation}}};
  };
  const auto since = [&](double share, std::vector<Trial> trials) {
    Gains gains(share);
    for (const Trial& one : trials) gains.hear(one);
    return gains.since();
  };
  CHECK(since(0.01, {trial({100}), trial({99.5}), trial({99.5})}) == 2);  // 0.5 is less than a hundredth of 100
  CHECK(since(0.01, {trial({100}), trial({98})}) == 0);
  CHECK(since(0, {trial({100}), trial({100})}) == 1);
  CHECK(since(0, {trial({-1}), trial({-2})}) == 0);           // a value that is maximised falls
  CHECK(since(0, {trial({100}), trial({1}, 0.5)}) == 1);      // beyond a limit
  CHECK(since(0, {trial({1}, 0.5), trial({9}, 0.2)}) == 0);   // less so
  CHECK(since(0, {trial({1}, 0.5), trial({9})}) == 0);        // not at all
  CHECK(since(0, {trial({100}), trial({1}, 0, 0.25)}) == 0);  // a shorter run counts as none
  CHECK(since(0, {trial({1, 5}), trial({5, 1}), trial({3, 3})}) == 0);
  CHECK(since(0, {trial({1, 5}), trial({5, 1}), trial({5, 5})}) == 1);
  CHECK(since(0.3, {trial({1, 5}), trial({5, 1}), trial({4.5, 2})}) == 1);  // 5 < 4.5 + 0.3 * 4, 1 < 2 + 0.3 * 4
  CHECK(since(0.1, {trial({1, 5}), trial({5, 1}), trial({3, 3})}) == 0);
}

TEST_CASE("an objective that is no number is a failed trial", "[search]") {
  Space space;
  add(space, integer("a", 1, 3));
  const auto driver = make_driver("grid", {.space = &space});
  const auto none = [](const Proposal&) {
    return Evaluation{.objectives = {std::numeric_limits<double>::quiet_NaN()}};
  };
  const auto trials = run_search(*driver, on_threads(none, 1), {.budget = 10});
  REQUIRE(trials.size() == 3);
  CHECK(trials[0].result.status == TrialStatus::failed);
  CHECK(trials[0].result.reason == "an objective is not a finite number");
}

TEST_CASE("constraint domination", "[search]") {
  const Evaluation good{.objectives = {1, 2}, .margins = {0}}, worse{.objectives = {1, 3}, .margins = {0}},
      over{.objectives = {0, 0}, .margins = {0.5}}, broken{.status = TrialStatus::failed};
  CHECK(dominates(good, worse));
  CHECK_FALSE(dominates(worse, good));
  CHECK_FALSE(dominates(good, good));
  CHECK(dominates(worse, over));
  CHECK(dominates(over, broken));
  CHECK(better(good, over));
  CHECK_FALSE(better(broken, broken));
}

}  // namespace
}  // namespace orrery::experiments::search::test_search_loop
