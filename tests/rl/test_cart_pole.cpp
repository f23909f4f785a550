#include <catch2/catch.hpp>
#include <cmath>

#include "tests/rl/support.hpp"

namespace test_cart_pole {

using namespace orrery;
using namespace orrery::experiments::rl;

TEST_CASE("cart-pole follows the equations of motion", "[unit]") {
  const auto env = test::make_env("cart_pole");
  TimeStep now;
  env->reset(3, now);
  for (int i = 0; i < 9; ++i) {
    const double x = now.observation[0], v = now.observation[1], a = now.observation[2], w = now.observation[3];
    const double action = i % 2, force = action == 1 ? 10 : -10;
    // Solved as two linear equations in the accelerations (cart p, pole r), the textbook form before elimination:
    //   (M + m) p + m l cos a r = F + m l w^2 sin a,   cos a p + (4/3) l r = g sin a;   M 1, m 0.1, l 0.5, g 9.8
    const double a11 = 1.1, a12 = 0.05 * std::cos(a), b1 = force + 0.05 * w * w * std::sin(a);
    const double a21 = std::cos(a), a22 = 2.0 / 3, b2 = 9.8 * std::sin(a);
    const double det = a11 * a22 - a12 * a21;
    const double p = (b1 * a22 - a12 * b2) / det, r = (a11 * b2 - b1 * a21) / det;
    env->step(std::vector<double>{action}, now);
    CHECK(now.observation[0] == Approx(x + 0.02 * v));
    CHECK(now.observation[1] == Approx(v + 0.02 * p));
    CHECK(now.observation[2] == Approx(a + 0.02 * w));
    CHECK(now.observation[3] == Approx(w + 0.02 * r));
    CHECK(now.rewards[0] == 1);
  }
}

TEST_CASE("cart-pole ends beyond its limits, is cut off at its last step", "[unit]") {
  const auto env = test::make_env("cart_pole");
  TimeStep now;
  env->reset(1, now);
  int steps = 0;
  while (!now.ended()) {
    env->step(std::vector<double>{1}, now);
    ++steps;
    const bool beyond =
        std::abs(now.observation[0]) > 2.4 || std::abs(now.observation[2]) > 12 * 3.14159265358979 / 180;
    CHECK(now.terminated == beyond);
  }
  CHECK(steps < 20);  // pushed to one side the pole falls within some 10 steps
  CHECK_FALSE(now.truncated);
  const auto brief = test::make_env("cart_pole", R"({"max_steps": 2})");
  brief->reset(1, now);
  brief->step(std::vector<double>{1}, now);
  CHECK_FALSE(now.truncated);
  brief->step(std::vector<double>{0}, now);
  CHECK(now.truncated);
  CHECK_FALSE(now.terminated);
}

TEST_CASE("a continuous force of an end is the push to that side", "[unit]") {
  const auto pushed = test::make_env("cart_pole"), forced = test::make_env("cart_pole", R"({"continuous": true})");
  TimeStep a, b;
  pushed->reset(7, a);
  forced->reset(7, b);
  for (const double side : {1.0, 0.0, 0.0, 1.0}) {
    pushed->step(std::vector<double>{side}, a);
    forced->step(std::vector<double>{2 * side - 1}, b);
    CHECK(a.observation == b.observation);
  }
}

}  // namespace test_cart_pole
