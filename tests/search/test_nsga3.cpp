// NSGA-III: even cover of fronts of many objectives, limits, generations.
#include <catch2/catch.hpp>

#include "quality.hpp"

namespace orrery::experiments::search::test_nsga3 {
namespace {

using namespace test;

double directions(std::size_t objectives, const std::string& params) {
  Space space;
  add(space, real("x", 0, 1));
  const auto driver = make_driver("nsga3", {.space = &space, .objectives = objectives}, params);
  return driver->statistics()[0].second;
}

TEST_CASE("directions are even on the simplex, as many as fit", "[search][nsga3]") {
  // C(m + p - 1, p): three objectives, 12 divisions 91, 13 would be 105; five, 5 divisions 126, 6 would be 210.
  CHECK(directions(3, R"({"directions": 100})") == 91);
  CHECK(directions(5, R"({"directions": 200})") == 126);
  CHECK(directions(2, R"({"directions": 30})") == 30);
  // Eight in two layers of 3 divisions, C(10, 3) each.
  CHECK(directions(8, R"({"directions": 250})") == 240);
  CHECK(directions(3, R"({"directions": 1})") == 3);  // the axes at least
}

TEST_CASE("more of a sphere of three, five and eight objectives than NSGA-II and random points", "[search][nsga3]") {
  for (const auto& [problem, least] :
       std::vector<std::pair<std::string, double>>{{"dtlz2_3", 0.95}, {"dtlz2_5", 0.9}, {"dtlz2_8", 0.85}}) {
    const Effort effort{.budget = 3000, .batch = 50, .seeds = 3};
    const double own = quality(problem, "nsga3", "{}", effort).median,
                 two = quality(problem, "nsga2", "{}", effort).median,
                 random = quality(problem, "random", "{}", effort).median;
    INFO(problem << ": nsga3 " << own << ", nsga2 " << two << ", random " << random);
    CHECK(own > least);
    CHECK(own > random);
    if (problem != "dtlz2_3") CHECK(own > two);
  }
}

TEST_CASE("one objective needs no directions", "[search][nsga3]") {
  CHECK(quality("sphere", "nsga3", "{}", {.budget = 2000, .batch = 20}, 4).median < 0.05);
}

TEST_CASE("limits come before directions of many objectives", "[search][nsga3]") {
  const Space space = corner_space();
  const auto evaluate = [](const Proposal& p) { return in_corner(p, 3); };
  UniqueDriver driver(make_driver("nsga3", {.space = &space, .objectives = 3, .limits = 1}, R"({"directions": 40})"),
                      space, {1, "unique"});
  CHECK(best_of(run_search(driver, on_threads(evaluate, 1), {.budget = 3000, .batch = 40})) ==
        Approx(5.4).epsilon(0.02));
}

}  // namespace
}  // namespace orrery::experiments::search::test_nsga3
