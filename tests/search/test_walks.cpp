// Hill climbing, annealing, the genetic algorithm: what sets each apart.
#include <catch2/catch.hpp>
#include <map>

#include "quality.hpp"

namespace orrery::experiments::search::test_walks {
namespace {

using namespace test;

double figure(const Driver& driver, const std::string& name) {
  const auto figures = driver.statistics();
  return std::map<std::string, double>(figures.begin(), figures.end()).at(name);
}

/// A trial of each proposal of a batch.
std::vector<Trial> told(Driver& driver, std::size_t most, const Evaluate& evaluate) {
  std::vector<Trial> trials;
  for (const Proposal& proposal : driver.ask(most)) trials.push_back({proposal, evaluate(proposal)});
  driver.tell(trials);
  return trials;
}

TEST_CASE("a climb ends at the top of its hill, and another begins", "[search][hill_climbing]") {
  Space space;
  add(space, ordinal("a", {0, 1, 2, 3, 4, 5, 6, 7}));
  add(space, ordinal("b", {0, 1, 2, 3, 4, 5, 6, 7}));
  // Two hills: (1, 1) at 0 and (6, 6) at 1.
  const auto hills = [](const Proposal& p) {
    const double one = std::abs(p.point[0] - 1) + std::abs(p.point[1] - 1);
    const double two = 1 + std::abs(p.point[0] - 6) + std::abs(p.point[1] - 6);
    return Evaluation{.objectives = {std::min(one, two)}};
  };
  const auto driver = make_driver("hill_climbing", {.space = &space});
  std::map<double, int> seen;
  for (int i = 0; i < 100; ++i)
    for (const Trial& trial : told(*driver, 4, hills)) ++seen[trial.result.objectives[0]];
  CHECK(seen[0] > 0);
  CHECK(figure(*driver, "restarts") > 3);
}

TEST_CASE("annealing takes what is worse at first, and not at last", "[search][annealing]") {
  Space space;
  add(space, integer("n", 0, 15));
  const auto zigzag = [](const Proposal& p) {
    return Evaluation{.objectives = {std::abs(p.point[0] - 12) + (static_cast<int>(p.point[0]) % 2 == 0 ? 0 : 3)}};
  };
  const auto acceptance = [&](double temperature) {
    const auto driver =
        make_driver("annealing", {.space = &space, .budget = 2000},
                    fmt::format(R"({{"start": {}, "end": {}, "patience": 100000}})", temperature, temperature * 0.999));
    for (int i = 0; i < 500; ++i) told(*driver, 4, zigzag);
    return figure(*driver, "acceptance");
  };
  CHECK(acceptance(100) > 0.95);
  CHECK(acceptance(0.001) < 0.2);
}

TEST_CASE("annealing's temperatures need no knowledge of the scale", "[search][annealing]") {
  const Problem problem = make_problem("rastrigin", 3);
  const auto trace = [&](double scale) {
    const auto driver = make_driver("annealing", {.space = &problem.space, .budget = 300});
    std::string text;
    const auto evaluate = [&](const Proposal& p) {
      return Evaluation{.objectives = {scale * problem.evaluate(p).objectives[0]}};
    };
    for (int i = 0; i < 75; ++i)
      for (const Trial& trial : told(*driver, 4, evaluate)) text += problem.space.text(trial.proposal.point) + "\n";
    return text;
  };
  CHECK(trace(1) == trace(1024));  // a power of two: the same bits
}

TEST_CASE("the best of a generation stay", "[search][genetic]") {
  const Problem problem = make_problem("mixed");
  const auto best_after = [&](const std::string& params) {
    std::vector<double> best;
    for (std::uint64_t seed = 1; seed <= 7; ++seed)
      best.push_back(best_of(search_problem(problem, "genetic", params, {.budget = 400, .batch = 24}, seed)));
    return quartiles(std::move(best)).median;
  };
  CHECK(best_after("{}") < best_after(R"({"elite": 0, "tournament": 1})"));  // no selection but that of who stays
}

}  // namespace
}  // namespace orrery::experiments::search::test_walks
