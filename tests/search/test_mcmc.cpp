// Markov chains: they draw from the density that they claim.
#include <catch2/catch.hpp>
#include <map>

#include "quality.hpp"

namespace orrery::experiments::search::test_mcmc {
namespace {

using namespace test;

/// Statistics of a driver after `budget` trials; not through UniqueDriver, so that chains are told every move.
std::map<std::string, double> statistics(const Space& space, const std::string& params, std::int64_t budget,
                                         const Evaluate& evaluate) {
  const auto driver = make_driver("mcmc", {.space = &space, .budget = budget}, params);
  (void)run_search(*driver, on_threads(evaluate, 1), {.budget = budget, .batch = 4});
  const auto figures = driver->statistics();
  return {figures.begin(), figures.end()};
}

TEST_CASE("chains over whole numbers and choices reach the mean of their density", "[search][mcmc]") {
  Space space;
  add(space, integer("n", 1, 6));
  add(space, categorical("kind", {"a", "b", "c"}));
  const auto cost = [](double n, double kind) { return (n - 3) * (n - 3) / 2 + kind; };
  const auto evaluate = [&](const Proposal& p) { return Evaluation{.objectives = {cost(p.point[0], p.point[1])}}; };
  for (const double temperature : {0.5, 2.0}) {
    double weights = 0, mean = 0;
    for (int n = 1; n <= 6; ++n)
      for (int kind = 0; kind < 3; ++kind) {
        const double weight = std::exp(-cost(n, kind) / temperature);
        weights += weight;
        mean += weight * cost(n, kind);
      }
    auto found = statistics(space, fmt::format(R"({{"temperature": {}}})", temperature), 20'000, evaluate);
    INFO("temperature " << temperature);
    CHECK(found["mean_objective"] == Approx(mean / weights).epsilon(0.06));
    CHECK(found["gelman_rubin"] < 1.02);
    CHECK(found["effective_samples"] > 500);
    CHECK(found["acceptance"] > 0.1);
  }
}

TEST_CASE("chains over a real reach the mean of their density, walls included", "[search][mcmc]") {
  Space space;
  add(space, real("x", 0, 1));
  const auto slope = [](const Proposal& p) { return Evaluation{.objectives = {8 * p.point[0]}}; };
  // A truncated exponential: E[8 x] = 1 - 8 e^-8 / (1 - e^-8) = 0.9973 at temperature 1.
  auto found = statistics(space, R"({"temperature": 1})", 20'000, slope);
  CHECK(found["mean_objective"] == Approx(0.9973).epsilon(0.06));
  // So hot that all places are alike: E[8 x] = 4.
  CHECK(statistics(space, R"({"temperature": 1e9})", 20'000, slope)["mean_objective"] == Approx(4).epsilon(0.06));
}

TEST_CASE("what is not allowed is left out of the density", "[search][mcmc]") {
  Space space;
  add(space, integer("n", 1, 6));
  constrain(space, "n != 3");
  const auto same = [](const Proposal& p) { return Evaluation{.objectives = {p.point[0]}}; };
  // At an endless temperature 1, 2, 4, 5, 6 come alike often: 18 / 5.
  CHECK(statistics(space, R"({"temperature": 1e9, "width": 0.5})", 20'000, same)["mean_objective"] ==
        Approx(3.6).epsilon(0.04));
}

TEST_CASE("chains that start far apart and hardly move do not agree", "[search][mcmc]") {
  Space space;
  add(space, real("x", 0, 1));
  const auto slope = [](const Proposal& p) { return Evaluation{.objectives = {8 * p.point[0]}}; };
  auto found = statistics(space, R"({"temperature": 1e9, "width": 1e-4, "burn_in": 0})", 400, slope);
  CHECK(found["gelman_rubin"] > 2);
}

}  // namespace
}  // namespace orrery::experiments::search::test_mcmc
