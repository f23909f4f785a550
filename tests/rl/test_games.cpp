// Matrix games and the rendezvous: payoffs and fewest steps by hand.
#include <catch2/catch.hpp>

#include "tests/rl/support.hpp"

namespace test_games {

using namespace orrery;
using namespace orrery::experiments::rl;

namespace {

std::vector<double> play(const std::string& params, double row, double column) {
  const auto env = test::make_env("matrix_game", params);
  TimeStep now;
  env->reset(1, now);
  env->step(std::vector<double>{row, column}, now);
  CHECK(now.terminated);
  return now.rewards;
}

}  // namespace

TEST_CASE("matrix games pay what their tables say", "[golden]") {
  using Rewards = std::vector<double>;
  CHECK(play(R"({"game": "climbing"})", 0, 0) == Rewards{11, 11});
  CHECK(play(R"({"game": "climbing"})", 0, 1) == Rewards{-30, -30});
  CHECK(play(R"({"game": "climbing"})", 1, 2) == Rewards{6, 6});
  CHECK(play(R"({"game": "climbing"})", 2, 1) == Rewards{0, 0});
  CHECK(play(R"({"game": "penalty", "penalty": -7})", 2, 0) == Rewards{-7, -7});
  CHECK(play(R"({"game": "matching"})", 1, 1) == Rewards{1, 1});
  CHECK(play(R"({"game": "dilemma"})", 0, 1) == Rewards{0, 5});  // the one who defects gets 5
  CHECK(play(R"({"game": "dilemma"})", 1, 1) == Rewards{1, 1});
}

TEST_CASE("a matrix game shows each player both choices, its own first", "[unit]") {
  const auto env = test::make_env("matrix_game", R"({"game": "dilemma", "rounds": 2})");
  TimeStep now;
  env->reset(1, now);
  CHECK(now.observation == std::vector<double>(8, 0.0));
  env->step(std::vector<double>{0, 1}, now);
  CHECK_FALSE(now.ended());
  CHECK(now.observation == std::vector<double>{1, 0, 0, 1, 0, 1, 1, 0});
}

TEST_CASE("rendezvous: who walks to the middle meets in the fewest steps", "[prop]") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const auto env = test::make_env("rendezvous", R"({"agents": 4, "cells": 11, "max_steps": 50})");
    TimeStep now;
    env->reset(seed, now);
    const double fewest = now.info[0];
    double low = 1, high = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      low = std::min(low, now.observation[3 * i]);
      high = std::max(high, now.observation[3 * i]);
    }
    const double middle = static_cast<double>(static_cast<int>((low + high) * 10 / 2 + 1e-9)) / 10;
    int steps = 0;
    while (!now.ended()) {
      std::vector<double> action;
      for (std::size_t i = 0; i < 4; ++i) {
        const double gap = middle - now.observation[3 * i];
        action.push_back(gap > 0.05 ? 2 : gap < -0.05 ? 0 : 1);
      }
      env->step(action, now);
      ++steps;
    }
    CHECK(now.terminated);
    CHECK(steps == fewest);
  }
}

}  // namespace test_games
