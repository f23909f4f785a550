// The acrobot and the pendulum: equations of motion, what they conserve, ends and rewards.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/rl/support.hpp"

namespace test_swing_up {

using namespace orrery;
using namespace orrery::experiments::rl;

namespace {

constexpr double kPi = 3.14159265358979323846;

/// Of the acrobot, from what it shows, with g 9.8 and the masses, lengths and inertias of its file: kinetic energy
/// (u, w) M (u, w) / 2 with M = [[3.5 + cos b, 1.25 + cos b / 2], [1.25 + cos b / 2, 1.25]], and heights of the
/// centres.
double energy(const std::vector<double>& seen) {
  const double first = std::atan2(seen[1], seen[0]), second = std::atan2(seen[3], seen[2]), u = seen[4], w = seen[5];
  const double d1 = 3.5 + std::cos(second), d2 = 1.25 + 0.5 * std::cos(second);
  return 0.5 * (d1 * u * u + 2 * d2 * u * w + 1.25 * w * w) -
         9.8 * (1.5 * std::cos(first) + 0.5 * std::cos(first + second));
}

}  // namespace

TEST_CASE("an acrobot whose motor rests keeps its energy", "[prop]") {
  const auto env = test::make_env("acrobot");
  TimeStep now;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    env->reset(seed, now);
    // Pumped up first, by pushing the way the second link turns; then let go: a Runge-Kutta step of 0.2 s loses little.
    for (int i = 0; i < 20; ++i) env->step(std::vector<double>{now.observation[5] > 0 ? 2.0 : 0.0}, now);
    const double before = energy(now.observation);
    CHECK(before > energy({1, 0, 1, 0, 0, 0}) + 0.5);  // hanging at rest: -19.6 J
    for (int i = 0; i < 20; ++i) env->step(std::vector<double>{1}, now);
    CHECK(energy(now.observation) == Approx(before).margin(0.05));
  }
}

TEST_CASE("an acrobot's motor works: torque times the turn of the joint", "[unit]") {
  const auto env = test::make_env("acrobot");
  TimeStep now;
  env->reset(2, now);
  const double before = energy(now.observation), angle = std::atan2(now.observation[3], now.observation[2]);
  env->step(std::vector<double>{2}, now);  // 1 N m over the step
  const double turned = std::atan2(now.observation[3], now.observation[2]) - angle;
  CHECK(energy(now.observation) - before == Approx(turned).margin(1e-3));
}

TEST_CASE("an acrobot pays 1 a step, nothing for the last, which is a length above the hinge", "[unit]") {
  const auto env = test::make_env("acrobot", R"({"max_steps": 400})");
  TimeStep now;
  env->reset(1, now);
  int steps = 0;
  while (!now.ended()) {
    env->step(std::vector<double>{now.observation[5] > 0 ? 2.0 : 0.0}, now);  // pushes the way the joint turns
    ++steps;
    // -cos a - cos(a + b), the second by the sum of angles
    const auto& o = now.observation;
    const double tip = -o[0] - (o[0] * o[2] - o[1] * o[3]);
    CHECK(now.terminated == (tip > 1));
    CHECK(now.rewards[0] == (now.terminated ? 0 : -1));
  }
  CHECK(now.terminated);
  CHECK(steps < 400);
}

TEST_CASE("a pendulum moves by its equations, and pays for where it was", "[unit]") {
  const auto env = test::make_env("pendulum");
  TimeStep now;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    env->reset(seed, now);
    const double angle = std::atan2(now.observation[1], now.observation[0]), turn = now.observation[2], torque = 1.5;
    env->step(std::vector<double>{torque}, now);
    // w + (15 sin a + 3 * 1.5) 0.05, a + w 0.05
    const double faster = turn + (15 * std::sin(angle) + 4.5) * 0.05;
    CHECK(now.observation[2] == Approx(faster));
    CHECK(now.observation[0] == Approx(std::cos(angle + faster * 0.05)));
    CHECK(now.observation[1] == Approx(std::sin(angle + faster * 0.05)).margin(1e-12));
    CHECK(now.rewards[0] == Approx(-(angle * angle + 0.1 * turn * turn + 0.001 * torque * torque)));
  }
}

TEST_CASE("a pendulum's speed is cut, its angle stays within half a turn, its episode is cut off", "[unit]") {
  const auto env = test::make_env("pendulum");
  TimeStep now;
  env->reset(3, now);
  double most_cost = 0, most_speed = 0;
  int steps = 0;
  for (; !now.ended(); ++steps) {
    env->step(std::vector<double>{now.observation[2] > 0 ? 2.0 : -2.0}, now);  // pumps
    most_cost = std::max(most_cost, -now.rewards[0]);
    most_speed = std::max(most_speed, std::abs(now.observation[2]));
  }
  CHECK(steps == 200);
  CHECK(now.truncated);
  CHECK_FALSE(now.terminated);
  CHECK(most_speed == 8);
  CHECK(most_cost <= kPi * kPi + 6.4 + 0.004);
}

TEST_CASE("a pendulum's choices are even torques from end to end", "[unit]") {
  const auto free = test::make_env("pendulum"), five = test::make_env("pendulum", R"({"torques": 5})");
  TimeStep a, b;
  for (const double choice : {0.0, 1.0, 2.0, 3.0, 4.0}) {
    free->reset(9, a);
    five->reset(9, b);
    free->step(std::vector<double>{choice - 2}, a);  // -2, -1, 0, 1, 2 N m
    five->step(std::vector<double>{choice}, b);
    CHECK(a.observation == b.observation);
    CHECK(a.rewards == b.rewards);
  }
}

}  // namespace test_swing_up
