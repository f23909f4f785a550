// Spaces: what counts, what is allowed, and the way between points, numbers and the unit cube.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "spaces.hpp"

namespace orrery::experiments::search::test_space {
namespace {

using namespace test;

const double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("a parameter whose condition fails does not count", "[search][space]") {
  const Space space = mixed_space();
  const Point fcfs = space.canonical({0, 2, 1, 3});
  CHECK(std::isnan(fcfs[1]));
  CHECK(space.key(fcfs) == space.key(space.canonical({0, 0, 1, 3})));  // budget 256 or 1024: the same point
  CHECK(space.key(space.canonical({1, 2, 1, 3})) != space.key(space.canonical({1, 0, 1, 3})));
  CHECK(space.text(fcfs) == "policy=fcfs, rate=1, tp=3");
  // One that counts but has no value takes its first.
  CHECK(space.canonical({1, kNaN, 1, 3})[1] == 0);
}

TEST_CASE("points are clamped and rounded", "[search][space]") {
  const Point point = mixed_space().canonical({1, 7, 100, 2.6});
  CHECK(point == Point{1, 2, 8, 3});
}

TEST_CASE("a figure that follows from what does not count assigns nothing", "[search][space]") {
  Space space;
  add(space, categorical("kind", {"a", "b"}));
  add(space, integer("n", 1, 4), "kind == 'a'");
  sim::Faults faults;
  space.derive({.name = "twice", .integer = true, .paths = {"x.y"}}, "2 * n", kHere, faults);
  faults.throw_if_any();
  const auto with = space.assignments(space.canonical({0, 3}));
  REQUIRE(with.size() == 1);
  CHECK(with[0].value.as_integer() == 6);
  CHECK(space.assignments(space.canonical({1, 3})).empty());
}

TEST_CASE("the end of a logarithmic range is met exactly", "[search][space]") {
  Space space;
  add(space, real("x", 0.5, 4, true));
  add(space, integer("n", 1, 1000, true));
  CHECK(space.from_unit(0, 0) == 0.5);
  CHECK(space.from_unit(0, 1) == 4);
  for (double n = 1; n <= 1000; ++n) CHECK(space.from_unit(1, space.to_unit(1, n)) == n);
}

TEST_CASE("constraints see the numbers of ordinals and derived figures", "[search][space]") {
  Space space;
  add(space, ordinal("budget", {256, 512, 1024}));
  add(space, integer("tp", 1, 4));
  sim::Faults faults;
  space.derive({.name = "share", .formula = *sim::Formula::parse("0", {}, kHere, faults), .paths = {"a.b"}},
               "budget / tp", kHere, faults);
  space.constrain("share >= 200", kHere, faults);
  REQUIRE(faults.empty());
  CHECK_FALSE(space.allowed({0, 1.0 + 1}));  // 256 / 2 = 128
  CHECK(space.allowed({1, 2}));              // 512 / 2 = 256
  CHECK(space.numbers({2, 4}) == std::vector<double>{1024, 4, 256});
  REQUIRE(space.assignments({2, 4}).size() == 1);
  CHECK(space.assignments({2, 4})[0].value.dump() == "256");
}

TEST_CASE("the unit cube and back", "[search][space]") {
  const Space space = mixed_space();
  sim::RandomStream random(1, "test");
  for (int i = 0; i < 1000; ++i) {
    const auto point = space.sample(random);
    REQUIRE(point);
    CHECK(space.allowed(*point));
    const Point back = space.from_units(space.to_units(*point));
    for (std::size_t p = 0; p < back.size(); ++p)
      if (!std::isnan(back[p])) CHECK(back[p] == Approx((*point)[p]).epsilon(1e-12));
  }
}

TEST_CASE("integers share the unit interval, by their logarithm if asked", "[search][space]") {
  Space space;
  add(space, integer("n", 1, 4));
  add(space, integer("m", 1, 7, true));
  CHECK(space.from_unit(0, 0) == 1);
  CHECK(space.from_unit(0, 0.2499) == 1);
  CHECK(space.from_unit(0, 0.25) == 2);
  CHECK(space.from_unit(0, 1) == 4);
  // log 2 / log 8 = 1/3 of the interval is 1's, up to log 4 / log 8 = 2/3 go 2 and 3.
  CHECK(space.from_unit(1, 0.33) == 1);
  CHECK(space.from_unit(1, 0.34) == 2);
  CHECK(space.from_unit(1, 0.66) == 3);
  CHECK(space.from_unit(1, 0.67) == 4);
}

TEST_CASE("the grid counts every combination, the last fastest", "[search][space]") {
  Space space;
  add(space, categorical("a", {"x", "y"}));
  add(space, integer("b", 3, 5));
  REQUIRE(space.grid_size() == 6U);
  CHECK(space.grid_point(0) == Point{0, 3});
  CHECK(space.grid_point(2) == Point{0, 5});
  CHECK(space.grid_point(3) == Point{1, 3});
  add(space, real("c", 0, 1));
  CHECK_FALSE(space.grid_size());
}

TEST_CASE("a step gives another value that is allowed for its parameter", "[search][space]") {
  Space space;
  add(space, categorical("a", {"x", "y", "z"}));
  add(space, ordinal("b", {1, 2, 4, 8}));
  add(space, integer("c", 0, 1000));
  add(space, real("d", -1, 1));
  sim::RandomStream random(2, "test");
  const Point start{1, 0, 1000, 1};
  for (int i = 0; i < 300; ++i)
    for (std::size_t p = 0; p < space.size(); ++p) {
      Point next = start;
      next[p] = space.step(p, start[p], 0.1, random);
      CHECK(next[p] != start[p]);
      CHECK(space.canonical(next) == next);
      if (p == 1) CHECK(next[p] == 1);  // at the end there is one neighbour
    }
}

TEST_CASE("faults of parameters", "[search][space]") {
  Space space;
  sim::Faults faults;
  space.add(real("x", 2, 1), {}, kHere, faults);
  space.add(real("y", 0, 1, true), {}, kHere, faults);
  space.add(ordinal("z", {}), {}, kHere, faults);
  space.add(integer("x", 1, 2), {}, kHere, faults);
  space.add(integer("w", 1, 2), "polcy == 1", kHere, faults);
  space.constrain("x + q > 1", kHere, faults);
  REQUIRE(faults.size() == 6);
  CHECK(faults.all()[0].message == "expected a range [low, high] of 'x' with low <= high, got [2, 1]");
  CHECK(faults.all()[1].message == "expected a range above 0 for the logarithmic scale of 'y', got one from 0");
  CHECK(faults.all()[2].message == "expected at least one value of 'z'");
  CHECK(faults.all()[3].message == "expected a new name, found 'x' a second time");
}

}  // namespace
}  // namespace orrery::experiments::search::test_space
