// What every driver keeps to, whatever its method (experiments/search/driver.hpp, "Contract").
#include <catch2/catch.hpp>
#include <set>

#include "quality.hpp"

namespace orrery::experiments::search::test_drivers {
namespace {

using namespace test;

/// Ours: drivers of others need their packages, and have tests of their own.
std::vector<std::string> driver_names() {
  DriverRegistry registry("driver");
  register_drivers(registry);
  std::vector<std::string> names = registry.names();
  std::erase(names, "optuna");
  std::erase(names, "pagmo");
  std::erase(names, "select");  // wants a parameter for the seed: test_selection.cpp
  return names;
}

/// A mixed space with conditions and a constraint; half of its evaluations fail or violate a limit.
Evaluation rough(const Space& space, const Proposal& proposal) {
  const Point& x = proposal.point;
  if (x[3] == 4) return {.status = TrialStatus::infeasible, .reason = "does not fit"};
  if (x[3] == 3 && x[0] == 0) return {.status = TrialStatus::failed, .reason = "broke"};
  const double budget = std::isnan(x[1]) ? 3 : x[1];
  const double cost = (x[2] - 2) * (x[2] - 2) + budget + 3 * x[3] * (space.size() == 4 ? 1 : 0);
  return {.objectives = {cost, 10 - x[2]},
          .margins = {std::max(0.0, x[2] - 5)},
          .breakdown = {{"compute", x[2]}, {"memory", 2}}};
}

DriverSetup setup_of(const Space& space, std::uint64_t seed) {
  return {.space = &space,
          .objectives = 2,
          .limits = 1,
          .budget = 200,
          .random = sim::RandomStream(seed, "driver"),
          .remedies = {{"compute", {2, 3}}, {"memory", {1}}}};
}

/// Fewer for drivers whose steps take milliseconds.
std::int64_t rounds_of(const std::string& name, std::int64_t usual) {
  return name == "bayesian" ? usual / 4 : usual;
}

TEST_CASE("drivers propose canonical allowed points, as many as asked for", "[search][drivers][prop]") {
  const Space space = mixed_space();
  for (const std::string& name : driver_names()) {
    INFO(name);
    const auto driver = make_driver(name, setup_of(space, 1));
    sim::RandomStream random(5, "sizes");
    for (int round = 0; round < rounds_of(name, 60); ++round) {
      const std::size_t most = 1 + random.below(9);
      const auto batch = driver->ask(most);
      if (batch.empty() && name == "grid") break;
      REQUIRE_FALSE(batch.empty());
      REQUIRE(batch.size() <= most);
      std::vector<Trial> trials;
      for (const Proposal& proposal : batch) {
        CHECK(space.key(space.canonical(proposal.point)) == space.key(proposal.point));
        CHECK(space.allowed(proposal.point));
        CHECK((proposal.fidelity > 0 && proposal.fidelity <= 1));
        trials.push_back({proposal, rough(space, proposal)});
      }
      driver->tell(trials);
    }
  }
}

TEST_CASE("drivers are pure functions of their setup and of what they are told", "[search][drivers][prop]") {
  const Space space = mixed_space();
  const auto evaluate = [&](const Proposal& p) { return rough(space, p); };
  for (const std::string& name : driver_names()) {
    INFO(name);
    const auto search = [&](std::size_t jobs, std::uint64_t seed) {
      UniqueDriver driver(make_driver(name, setup_of(space, seed)), space, {seed, "unique"});
      std::string text;
      for (const Trial& trial :
           run_search(driver, on_threads(evaluate, jobs), {.budget = rounds_of(name, 150), .batch = 6}))
        text += space.text(trial.proposal.point) + "\n";
      return text;
    };
    const std::string first = search(1, 1);
    CHECK(search(2, 1) == first);
    if (name != "grid" && name != "beam" && name != "bottleneck") CHECK(search(1, 2) != first);
  }
}

TEST_CASE("drivers stand results that lack, that were not asked for, or are all failures", "[search][drivers][prop]") {
  const Space space = mixed_space();
  for (const std::string& name : driver_names()) {
    if (name == "grid") continue;
    INFO(name);
    const auto driver = make_driver(name, setup_of(space, 1));
    sim::RandomStream random(7, "mess");
    const std::int64_t rounds = rounds_of(name, 120);
    for (int round = 0; round < rounds; ++round) {
      const auto batch = driver->ask(5);
      REQUIRE_FALSE(batch.empty());
      std::vector<Trial> trials;
      for (const Proposal& proposal : batch) {
        const double draw = random.uniform();
        if (draw < 0.2) continue;
        Proposal told = draw < 0.4 ? Proposal{space.sample(random).value(), proposal.fidelity} : proposal;
        const bool fails = round < rounds / 3 || draw > 0.9;
        trials.push_back(
            {told, fails ? Evaluation{.status = TrialStatus::failed, .reason = "no"} : rough(space, told)});
      }
      driver->tell(trials);
    }
  }
}

/// (x - 0.7)^2 summed over four reals.
Evaluation away_from_middle(const Proposal& proposal) {
  double sum = 0;
  for (const double x : proposal.point) sum += (x - 0.7) * (x - 0.7);
  return {.objectives = {sum}};
}

TEST_CASE("drivers go on from what they are told before they are asked", "[search][drivers][prop]") {
  Space space;
  for (const char* name : {"a", "b", "c", "d"}) add(space, real(name, 0, 1));
  // Random points, and one that is 0.04 off: (0.02)^2 * 4 = 0.0016; a random point is 0.5 off in the mean.
  std::vector<Trial> told;
  sim::RandomStream random(3, "told");
  for (int i = 0; i < 60; ++i) {
    const Proposal proposal{i == 30 ? Point{0.72, 0.68, 0.72, 0.68} : space.sample(random).value()};
    told.push_back({proposal, away_from_middle(proposal)});
  }
  const std::set<std::string> deaf{"grid",   "random", "sobol", "latin_hypercube",
                                   "cma_es", "mcmc",   "mcts",  "successive_halving"};
  for (const std::string& name : driver_names()) {
    INFO(name);
    UniqueDriver driver(make_driver(name, {.space = &space, .budget = 100, .random = {1, "driver"}}), space,
                        {1, "unique"});
    driver.tell(told);
    std::set<std::string> seen;
    for (const Trial& trial : told) seen.insert(space.key(trial.proposal.point));
    std::vector<double> values;
    for (const Trial& trial : run_search(driver, on_threads(away_from_middle, 1), {.budget = 24, .batch = 4})) {
      if (trial.proposal.fidelity == 1) CHECK(seen.insert(space.key(trial.proposal.point)).second);
      values.push_back(trial.result.objectives[0]);
    }
    REQUIRE(values.size() == 24);
    std::sort(values.begin(), values.end());
    // Who goes on from the best point has several of 24 near it; of random points one in a hundred is.
    const bool near = values[3] < 0.065;
    CHECK(near != deaf.contains(name));
  }
}

TEST_CASE("drivers end at once where nothing is allowed, and exhaust what is small", "[search][drivers]") {
  Space none;
  add(none, integer("a", 1, 7));
  constrain(none, "a > 9");
  Space small;
  add(small, integer("a", 1, 4));
  add(small, categorical("b", {"x", "y", "z"}));
  const auto bowl = [](const Proposal& p) { return Evaluation{.objectives = {p.point[0] + p.point[1]}}; };
  for (const std::string& name : driver_names()) {
    INFO(name);
    UniqueDriver nothing(make_driver(name, {.space = &none, .budget = 50}), none, {1, "unique"});
    CHECK(run_search(nothing, on_threads(bowl, 1), {.budget = 50, .batch = 3}).empty());
    UniqueDriver all(make_driver(name, {.space = &small, .budget = 50}), small, {1, "unique"});
    std::set<std::string> seen;
    for (const Trial& trial : run_search(all, on_threads(bowl, 1), {.budget = 50, .batch = 3}))
      if (trial.proposal.fidelity == 1) seen.insert(small.key(trial.proposal.point));
    if (name != "successive_halving") CHECK(seen.size() == 12);  // 4 * 3
  }
}

}  // namespace
}  // namespace orrery::experiments::search::test_drivers
