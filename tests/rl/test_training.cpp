// Training: determinism, checkpoints, what each learner reaches on the smallest tasks.
#include <catch2/catch.hpp>
#include <cmath>

#include "experiments/rl/core/linear_bandit.hpp"
#include "experiments/rl/core/on_policy.hpp"
#include "tests/rl/train_support.hpp"
#include "tests/systems.hpp"

namespace test_training {

using namespace orrery;
using namespace orrery::experiments::rl;

TEST_CASE("step sizes that fall to 0 are half of it half-way, and 0 at the end", "[unit]") {
  // The same step over and over, an update every 100 of them. Figures are those of the network before an update (the
  // temperature: after it). A change of weights by so little changes them in proportion. Of 200 steps in all, half are
  // left at the first update, none later.
  const auto figures = [](const std::string& learner, const char* anneal, const char* name) {
    const auto env = test::env_factory("cart_pole", "{}")();
    const std::string params = R"({"begin": 1, "train_every": 100, "batch": 4, "rate": 1e-7, "anneal": )";
    const auto one =
        test::learner_factory(learner, params + anneal + "}")({.spec = env->spec(), .envs = 1, .steps = 200});
    const std::vector<double> seen(4, 0.5), action{1}, rewards{1};
    const std::vector<std::uint8_t> yes{1}, no{0};
    std::vector<double> all;
    for (int i = 1; i <= 400; ++i) {
      one->learn({{1, seen, {}, {}}, action, rewards, yes, no, {1, seen, {}, {}}});
      if (i % 100 != 0) continue;
      for (const auto& [key, value] : one->figures())
        if (key == name) all.push_back(value);
    }
    return all;
  };
  const auto check = [&](const std::string& learner, const char* name) {
    CAPTURE(learner, name);
    std::vector<double> whole = figures(learner, "false", name), falls = figures(learner, "true", name);
    if (std::string_view(name) == "temperature") {  // before the first update it is 0.1
      whole.insert(whole.begin(), 0.1);
      falls.insert(falls.begin(), 0.1);
    }
    CHECK(whole[0] == falls[0]);
    CHECK(whole[1] != whole[0]);
    CHECK((falls[1] - falls[0]) / (whole[1] - whole[0]) == Approx(0.5).epsilon(1e-3));
    CHECK(falls[2] == falls[1]);
    CHECK(falls[3] == falls[1]);
    CHECK(whole[3] != whole[2]);
  };
  check("dqn", "loss");
  check("sac", "loss");
  check("sac", "entropy");
  check("sac", "temperature");
}

TEST_CASE("advantages by hand", "[unit]") {
  // gamma 0.5, lambda 0.5. Backwards: delta_2 = 3 + 0.5*8 - 2 = 5, A_2 = 5. Step 1 ends its episode in a state of value
  // 0: delta_1 = 2 - 4 = -2 = A_1. delta_0 = 1 + 0.5*4 - 6 = -3, A_0 = -3 + 0.25*(-2) = -3.5.
  const std::vector<double> rewards{1, 2, 3}, values{6, 4, 2}, next{4, 0, 8};
  const std::vector<std::uint8_t> ended{0, 1, 0};
  CHECK(advantages(rewards, values, next, ended, 0.5, 0.5) == std::vector<double>{-3.5, -2, 5});
}

TEST_CASE("every learner: same seed, same bits; and a checkpoint in the middle changes nothing", "[prop]") {
  for (const std::string& name : test_systems().registry<LearnerRegistry>().names()) {
    for (const char* env : {"job_shop", "contextual_bandit"}) {
      CAPTURE(name, env);
      const bool waits = name == "dqn" || name == "sac" || name == "muzero" || name == "cloning" || name == "dagger";
      const char* params = waits ? R"({"begin": 100, "batch": 16, "network": {"hidden": [16]}})" : "{}";
      const TrainingPlan plan = test::plan(env, "{}", name, params, 800, 4);
      Training whole(plan), half(plan);
      while (!whole.done()) whole.advance();
      half.advance();
      half.advance();
      Archive kept;
      half.state(kept);
      Training resumed(plan);
      Archive in(kept.bytes());
      resumed.state(in);
      in.finish();
      while (!resumed.done()) resumed.advance();
      CHECK(test::bytes_of(whole) == test::bytes_of(resumed));
      TrainingPlan other = plan;
      other.seed = 2;
      Training differs(other);
      while (!differs.done()) differs.advance();
      CHECK(test::bytes_of(whole) != test::bytes_of(differs));
    }
  }
}

TEST_CASE("learners refuse what they cannot serve", "[unit]") {
  const std::string force = R"({"continuous": true})";
  for (const std::string& name : test_systems().registry<LearnerRegistry>().names()) {
    if (name == "ppo" || name == "mappo" || name == "reinforce" || name == "evolution") continue;
    CAPTURE(name);
    CHECK_THROWS_AS(Training(test::plan("cart_pole", force, name, "{}", 100, 1)), std::invalid_argument);
  }
}

TEST_CASE("agents joined and split keep what they choose and get", "[unit]") {
  const auto joint = regroup(test::make_env("matrix_game", R"({"game": "dilemma"})"), Agents::joint);
  CHECK(joint->spec().agents.size() == 1);
  CHECK(joint->spec().action_size() == 2);
  TimeStep now;
  joint->reset(1, now);
  check_step(joint->spec(), now);
  joint->step(std::vector<double>{0, 1}, now);
  CHECK(now.rewards == std::vector<double>{2.5});  // mean of 0 and 5
  check_step(joint->spec(), now);
  const auto split = regroup(regroup(test::make_env("matrix_game"), Agents::joint), Agents::split);
  CHECK(split->spec().agents.size() == 2);
  split->reset(1, now);
  check_step(split->spec(), now);
  split->step(std::vector<double>{1, 1}, now);
  CHECK(now.rewards == std::vector<double>{7, 7});
  check_step(split->spec(), now);
  CHECK_THROWS_AS(regroup(test::make_env("matrix_game"), Agents::split), std::invalid_argument);
}

TEST_CASE("policy gradients learn the arms of a bandit", "[prop]") {
  for (const char* learner : {"ppo", "reinforce"}) {
    CAPTURE(learner);
    Training training(
        test::plan("contextual_bandit", R"({"noise": 0.1})", learner, R"({"rate": 0.003, "horizon": 32})", 12'000, 16));
    while (!training.done()) training.advance();
    CHECK(training.curve().back().info[0] < 0.1 * training.curve().front().info[0]);  // regret
  }
}

TEST_CASE("bandits come close to the best arm", "[prop]") {
  for (const char* learner : {"lin_ucb", "thompson"}) {
    CAPTURE(learner);
    Training training(test::plan("contextual_bandit", "{}", learner, "{}", 1000, 1));
    while (!training.done()) training.advance();
    // 200 plays an arm with noise 0.1 leave an error of some 0.1 * sqrt(4 / 200) = 0.014 in what an arm promises.
    CHECK(training.curve().back().info[0] < 0.03);
    CHECK(training.curve().front().info[0] > 0.2);
  }
}

TEST_CASE("a linear bandit's beliefs are the ridge regression", "[unit]") {
  LinearArm arm(2, 0.5);
  MatrixXd contexts(2, 3);
  contexts << 1, 2, -1, 1, 1, 1;
  VectorXd rewards(3);
  rewards << 3, 4, 1;
  for (Index i = 0; i < 3; ++i) arm.add(contexts.col(i), rewards[i]);
  const MatrixXd a = 0.5 * MatrixXd::Identity(2, 2) + contexts * contexts.transpose();
  // A = [6.5 2; 2 3.5], b = (3 + 8 - 1, 3 + 4 + 1) = (10, 8); det 18.75: theta = (35 - 16, 52 - 20) / 18.75
  CHECK(arm.theta()[0] == Approx(19 / 18.75));
  CHECK(arm.theta()[1] == Approx(32 / 18.75));
  CHECK((arm.inverse * a - MatrixXd::Identity(2, 2)).cwiseAbs().maxCoeff() < 1e-12);
}

TEST_CASE("several agents learn to meet", "[prop]") {
  // Some three steps are the fewest; who does not know what to do needs up to 20. Independent learners may go on
  // swapping places from some starts: each is a moving target to the other, and neither sees what the other will do.
  for (const auto& [learner, most] : {std::pair{"ppo", 10.0}, {"mappo", 4.0}}) {
    CAPTURE(learner);
    Training training(
        test::plan("rendezvous", R"({"agents": 2, "cells": 5})", learner, R"({"rate": 0.003})", 16'000, 16));
    while (!training.done()) training.advance();
    CHECK(training.curve().back().eval_length < most);
  }
}

}  // namespace test_training
