// Lines by least squares of relative errors.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/relative_line.hpp"

namespace test_relative_line {

using namespace orrery;

TEST_CASE("a line through points on it is that line", "[unit]") {
  const sim::RelativeLine line = sim::fit_relative_line(std::vector<sim::LinePoint>{{1, 5}, {10, 23}, {100, 203}});
  CHECK(line.start == Approx(3));
  CHECK(line.slope == Approx(2));
  CHECK(line.furthest == Approx(0).margin(1e-9));
}

TEST_CASE("no line is nearer in relative errors", "[prop]") {
  sim::RandomStream random(5, "lines");
  for (int round = 0; round < 50; ++round) {
    std::vector<sim::LinePoint> points;
    for (int i = 0; i < 6; ++i) points.push_back({random.uniform() * 100, 1 + random.uniform() * 50});
    const sim::RelativeLine line = sim::fit_relative_line(points);
    const auto error = [&](double start, double slope) {
      double sum = 0;
      for (const sim::LinePoint& p : points) sum += std::pow((start + slope * p.x) / p.y - 1, 2);
      return sum;
    };
    CHECK(line.start >= 0);
    CHECK(line.slope >= 0);
    const double best = error(line.start, line.slope);
    for (const double step : {0.99, 1.01}) {
      CHECK(error(line.start * step, line.slope) >= best * (1 - 1e-12));
      CHECK(error(line.start, line.slope * step) >= best * (1 - 1e-12));
    }
  }
}

TEST_CASE("lines that would fall or begin below nothing do neither", "[unit]") {
  // Falling points: flat at sum(1/y) / sum(1/y^2) = (1/4 + 1/2) / (1/16 + 1/4) = 2.4.
  const sim::RelativeLine flat = sim::fit_relative_line(std::vector<sim::LinePoint>{{1, 4}, {2, 2}});
  CHECK(flat.slope == 0);
  CHECK(flat.start == Approx(2.4));
  CHECK(flat.furthest == Approx(0.4));  // 2.4 / 4 - 1
  // Steeper than through 0: sum(x/y) / sum(x^2/y^2) = (1 + 2/3) / (1 + 4/9).
  const sim::RelativeLine steep = sim::fit_relative_line(std::vector<sim::LinePoint>{{1, 1}, {2, 3}});
  CHECK(steep.start == 0);
  CHECK(steep.slope == Approx((1 + 2.0 / 3) / (1 + 4.0 / 9)));
  // One x: flat.
  CHECK(sim::fit_relative_line(std::vector<sim::LinePoint>{{7, 3}, {7, 3}}).slope == 0);
}

}  // namespace test_relative_line
