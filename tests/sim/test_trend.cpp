// Means by place in a row, and whether they grow along it.
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "sim/base/random.hpp"
#include "sim/trend.hpp"

namespace test_trend {

using namespace orrery::sim;

TEST_CASE("Means by place: one a stretch, whatever the order in which values come", "[unit]") {
  PlaceMeans forth;
  PlaceMeans back;
  for (std::int64_t i = 0; i < 64; ++i) forth.add(i, static_cast<double>(i));
  for (std::int64_t i = 63; i >= 0; --i) back.add(i, static_cast<double>(i));
  REQUIRE(forth.means().size() == 64);  // kMost: nothing is joined yet
  CHECK(forth.means()[5] == 5);
  CHECK(back.means() == forth.means());
  // The 65th place doubles the stretches: (0 + 1) / 2, (2 + 3) / 2, …, and place 64 alone.
  forth.add(64, 64);
  REQUIRE(forth.means().size() == 33);
  CHECK(forth.means()[0] == 0.5);
  CHECK(forth.means()[31] == 62.5);
  CHECK(forth.means()[32] == 64);
  CHECK(forth.count() == 65);
  CHECK_THROWS_AS(forth.add(-1, 0), std::invalid_argument);
}

TEST_CASE("Places without values are left out of the means", "[unit]") {
  PlaceMeans some;
  some.add(0, 2);
  some.add(1'000'000, 4);  // stretches of 16,384 places: the first and the 62nd
  CHECK(some.means() == std::vector<double>{2, 4});
}

TEST_CASE("Rows of replications add up stretch by stretch, whichever is longer", "[unit]") {
  PlaceMeans a;
  PlaceMeans b;
  for (std::int64_t i = 0; i < 32; ++i) a.add(i, 1);
  for (std::int64_t i = 0; i < 128; ++i) b.add(i, 3);  // stretches of two
  PlaceMeans ab = a;
  ab.add(b);
  PlaceMeans ba = b;
  ba.add(a);
  CHECK(ab.means() == ba.means());
  REQUIRE(ab.means().size() == 64);
  CHECK(ab.means().front() == 2);  // two ones and two threes
  CHECK(ab.means().back() == 3);
  CHECK(ab.count() == 160);
}

TEST_CASE("A straight line is told exactly", "[unit]") {
  const Trend line = trend_of(std::vector<double>{1, 3, 5, 7});
  CHECK(line.mean == 4);
  CHECK(line.growth == Approx(6));  // from 1 to 7
  CHECK(line.t > 1e6);
  CHECK(trend_of(std::vector<double>{7, 5, 3, 1}).t < -1e6);
  CHECK(trend_of(std::vector<double>{2, 2, 2, 2}).t == 0);
  CHECK(trend_of(std::vector<double>{1, 9}).t == 0);  // no line through two points has an error
  CHECK(trend_of({}).mean == 0);
}

TEST_CASE("The t of a slope is that of the text books", "[unit]") {
  // x = -1.5, -0.5, 0.5, 1.5; y about its mean = -1, 1, -1, 1: slope = (1.5 - 0.5 - 0.5 + 1.5) / 5 = 0.4; what the line
  // leaves = 4 - 0.4 * 2 = 3.2; standard error = sqrt(3.2 / 2 / 5) = 0.5657; t = 0.7071.
  const Trend trend = trend_of(std::vector<double>{0, 2, 0, 2});
  CHECK(trend.growth == Approx(1.2));
  CHECK(trend.t == Approx(0.4 / std::sqrt(0.32)));
}

TEST_CASE("Noise alone rarely looks like growth", "[prop]") {
  RandomStream random(7, "noise");
  int found = 0;
  for (int row = 0; row < 400; ++row) {
    std::vector<double> values(40);
    for (double& value : values) value = random.normal();
    found += trend_of(values).t > 3 ? 1 : 0;
  }
  CHECK(found <= 4);  // P(t > 3) with 38 degrees of freedom is 0.24 %: one of 400 expected
}

TEST_CASE("A trend of few values, of a level row and of a falling one", "[unit]") {
  CHECK(trend_of(std::vector<double>{7}).mean == 7);
  CHECK(trend_of(std::vector<double>{1, 9}).mean == 5);
  CHECK(trend_of(std::vector<double>{1, 9}).growth == 0);
  const Trend level = trend_of(std::vector<double>{1, 3, 1});
  CHECK(level.growth == 0);
  CHECK(level.t == 0);
  CHECK(level.mean == Approx(5.0 / 3));
  // 0, 1, 5: x = -1, 0, 1; y about 2 = -2, -1, 3: slope 5/2, growth 5; left 14 - 2.5 * 5 = 1.5, so the standard error
  // is sqrt(1.5 / 1 / 2) and t = 2.5 / 0.8660.
  const Trend three = trend_of(std::vector<double>{0, 1, 5});
  CHECK(three.growth == Approx(5));
  CHECK(three.t == Approx(2.5 / std::sqrt(0.75)));
  const Trend falling = trend_of(std::vector<double>{5, 1, 0});
  CHECK(falling.growth == Approx(-5));
  CHECK(falling.t == Approx(-2.5 / std::sqrt(0.75)));
  CHECK(std::isinf(trend_of(std::vector<double>{0, 1, 2}).t));
  CHECK(trend_of(std::vector<double>{0, 1, 2}).t > 0);
  CHECK(trend_of(std::vector<double>{2, 1, 0}).t < 0);
}

TEST_CASE("Stretches are joined as often as it takes, the odd one alone", "[unit]") {
  PlaceMeans means;
  for (std::int64_t i = 0; i < 3; ++i) means.add(i, 10.0 * static_cast<double>(i));
  means.add(200, 7);  // 200 / 64 asks for stretches of 4: places 0 to 3, and 200 to 203
  CHECK(means.means() == std::vector<double>{10, 7});
  CHECK(means.count() == 4);
  means.add(3, 50);
  CHECK(means.means() == std::vector<double>{20, 7});  // (0 + 10 + 20 + 50) / 4
  means.add(255, 9);
  CHECK(means.means() == std::vector<double>{20, 7, 9});  // the 64th stretch is the last that fits
  means.add(256, 9);                                      // of 8 each: 200 … 207, 248 … 255, 256 … 263
  CHECK(means.means() == std::vector<double>{20, 7, 9, 9});
  means.add(250, 3);
  CHECK(means.means() == std::vector<double>{20, 7, 6, 9});
  PlaceMeans other;
  other.add(1, 80);  // a row that is shorter, and of shorter stretches
  means.add(other);
  CHECK(means.means() == std::vector<double>{32, 7, 6, 9});  // (80 + 80) / 5
  CHECK(means.count() == 9);
  CHECK(PlaceMeans().means().empty());
  CHECK(PlaceMeans().count() == 0);
}

}  // namespace test_trend
