// Test functions: values at known points, optima, fronts.
#include <catch2/catch.hpp>

#include "quality.hpp"

namespace orrery::experiments::search::test_problems {
namespace {

using namespace test;

double front_area(const std::string& name) {
  const Problem problem = make_problem(name);
  return area_of(problem.front(20'000), problem.reference);
}

TEST_CASE("hypervolumes of fronts match their integrals", "[search][problems]") {
  // Against (1.1, 1.1): f1 from 0 to 1 the height 1.1 - f2, then 0.1 * 1.1.
  CHECK(front_area("zdt1") == Approx(0.1 + 2.0 / 3 + 0.11).epsilon(1e-4));  // 1.1 - (1 - sqrt f1)
  CHECK(front_area("zdt4") == Approx(0.1 + 2.0 / 3 + 0.11).epsilon(1e-4));
  CHECK(front_area("zdt2") == Approx(0.1 + 1.0 / 3 + 0.11).epsilon(1e-4));  // 1.1 - (1 - f1^2)
  // zdt6 begins at f1 = 0.2807753: 0.1 (1 - 0.2807753) + (1 - 0.2807753^3) / 3 + 0.11.
  CHECK(front_area("zdt6") == Approx(0.1 * 0.7192247 + (1 - 0.0221348) / 3 + 0.11).epsilon(1e-4));
  CHECK(front_area("dtlz2") == Approx(1.21 - 3.14159265 / 4).epsilon(1e-4));  // outside the quarter circle
  CHECK(front_area("dtlz1") == Approx(0.55 * 0.55 - 0.125).epsilon(1e-4));    // above f1 + f2 = 1/2
  // BNH against (140, 50): x = y = t to 3 gives 16 int t (50 - 2 (t - 5)^2) dt = 2232, then y = 3 to x = 5 gives
  // 8 int t (46 - (t - 5)^2) dt = 2869.333, then 4 * 46 = 184.
  CHECK(front_area("bnh") == Approx(2232 + 2869.333 + 184).epsilon(1e-4));
}

TEST_CASE("no random point dominates a point of the front", "[search][problems][prop]") {
  for (const char* name : {"zdt1", "zdt2", "zdt3", "zdt4", "zdt6", "dtlz1", "dtlz2", "bnh", "srn", "tnk"}) {
    INFO(name);
    const Problem problem = make_problem(name, 0);
    const auto front = problem.front(2000);
    REQUIRE(front.size() > 100);
    sim::RandomStream random(3, name);
    for (int i = 0; i < 2000; ++i) {
      auto point = problem.space.sample(random);
      if (i % 2 == 0 && problem.limits == 0)  // near the front
        for (std::size_t p = 1; p < point->size(); ++p) (*point)[p] = std::string(name) < "e" ? 0.5 : 0;
      const Evaluation at = problem.evaluate({*point});
      if (!at.feasible()) continue;
      const bool beats = std::any_of(front.begin(), front.end(), [&](const auto& f) {
        return at.objectives[0] < f[0] - 1e-9 && at.objectives[1] < f[1] - 1e-9;
      });
      CHECK_FALSE(beats);
    }
  }
}

TEST_CASE("optima of problems with one objective", "[search][problems]") {
  const auto value = [](const char* name, const Point& point) {
    const Problem problem = make_problem(name);
    return problem.evaluate({problem.space.canonical(point)}).objectives[0];
  };
  CHECK(value("sphere", {1, 0.5, 0, 1, 0.5}) == 0);
  CHECK(value("rosenbrock", {1, 1, 1, 1, 1}) == 0);
  CHECK(value("rastrigin", {0, 0, 0, 0, 0}) == 0);
  CHECK(value("mixed", {2, 3, 24, 0.3, 0.8}) == 0);
  CHECK(value("mixed", {0, 3, 24, 0.3, 0.2}) == 2);
  CHECK(value("conditional", {1, 20, 2, 1, 0.6}) == 0);
  CHECK(value("conditional", {0, 8, 0, 0, 0}) == 3);
  CHECK(value("trap", {2, 0, 0, 0, 0.3, 0.7, 0.45, 0.6}) == 0);
  CHECK(value("trap", {0, 0.5, 0, 0, 0, 0, 0, 0}) == 0.25);
  CHECK(value("trap", {1, 0, 0.4, 0.6, 0, 0, 0, 0}) == 0.15);
  CHECK(value("models", {3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2e-4, 96, 0.35}) == Approx(0).margin(1e-12));
  CHECK(value("models", {0, 1e-2, 32, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0}) == Approx(0.3));
  // Dixon and Szego give -3.32237 at this place, 0.0000 here.
  CHECK(value("hartmann", {0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573}) == Approx(0).margin(1e-6));
  CHECK(value("rungs", {0.4, 0.4, 0.4, 0.4}) == Approx(0).margin(1e-12));
}

TEST_CASE("the optimum of the accelerator by enumeration", "[search][problems]") {
  const Problem problem = make_problem("bottleneck");
  double best = 1e300;
  Point where;
  for (std::uint64_t i = 0; i < problem.space.grid_size().value(); ++i) {
    const Point point = problem.space.grid_point(i);
    const Evaluation at = problem.evaluate({point});
    if (at.feasible() && at.objectives[0] < best) {
      best = at.objectives[0];
      where = point;
    }
  }
  INFO(problem.space.text(where));
  REQUIRE(problem.optimum);
  CHECK(best == Approx(*problem.optimum).epsilon(1e-12));
}

TEST_CASE("every name makes its problem, others do not", "[search][problems]") {
  for (const std::string& name : problem_names()) {
    const Problem problem = make_problem(name);
    CHECK(problem.name == name);
    CHECK(problem.space.size() > 0);
    sim::RandomStream random(1, "x");
    const Evaluation at = problem.evaluate({problem.space.sample(random).value()});
    CHECK(at.objectives.size() == problem.objectives);
    CHECK(at.margins.size() == problem.limits);
  }
  CHECK(make_problem("zdt1", 5).space.size() == 5);
  CHECK_THROWS_WITH(make_problem("zdt5"), "no problem is called 'zdt5'");
}

}  // namespace
}  // namespace orrery::experiments::search::test_problems
