// What every shipped environment keeps, and the numbers of each by hand.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/rl/support.hpp"
#include "tests/systems.hpp"

namespace test_envs {

using namespace orrery;
using namespace orrery::experiments::rl;

TEST_CASE("every environment keeps its spec, and an episode follows from seed and actions", "[prop]") {
  for (const std::string& name : test_systems().registry<EnvRegistry>().names()) {
    CAPTURE(name);
    const auto env = test::make_env(name), twin = test::make_env(name);
    TimeStep now, again;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      sim::RandomStream random(seed, "actions");
      env->reset(seed, now);
      twin->reset(seed, again);
      for (int step = 0; step < 2000; ++step) {
        check_step(env->spec(), now);
        REQUIRE(now.observation == again.observation);
        REQUIRE(now.rewards == again.rewards);
        REQUIRE(now.mask == again.mask);
        if (now.ended()) break;
        const std::vector<double> action = test::random_action(env->spec(), now, random);
        check_action(env->spec(), now.mask, action);
        env->step(action, now);
        twin->step(action, again);
      }
      // The twin has seen other steps than a fresh one: what came before an episode must not matter.
      twin->reset(seed + 100, again);
    }
  }
}

TEST_CASE("actions are checked against spec and mask", "[unit]") {
  EnvSpec spec;
  spec.agents.push_back({.name = "a", .action = ActionSpace::multi_discrete({2, 3}, {"first", "second"})});
  spec.agents.push_back({.name = "b", .action = ActionSpace::box({-1}, {1})});
  spec.masked = true;
  CHECK(spec.action_size() == 3);
  CHECK(spec.mask_size() == 5);
  const std::vector<std::uint8_t> mask{1, 0, 1, 1, 0};
  CHECK_NOTHROW(check_action(spec, mask, std::vector<double>{0, 1, 0.5}));
  CHECK_THROWS_WITH(check_action(spec, mask, std::vector<double>{1, 1, 0.5}), "a: first: choice 1 is not allowed now");
  CHECK_THROWS_WITH(check_action(spec, mask, std::vector<double>{0, 3, 0.5}),
                    "a: second: expected the index of one of 3 choices, got 3");
  CHECK_THROWS_WITH(check_action(spec, mask, std::vector<double>{0, 0.5, 0.5}),
                    "a: second: expected the index of one of 3 choices, got 0.5");
  CHECK_THROWS_WITH(check_action(spec, {}, std::vector<double>{0, 0, 2}),
                    "b: part 0: expected a number in [-1, 1], got 2");
  CHECK_THROWS_WITH(check_action(spec, {}, std::vector<double>{0, 0}), "expected an action of 3 numbers, got 2");
  CHECK_THROWS(check_action(spec, {}, std::vector<double>{0, 0, std::nan("")}));
}

TEST_CASE("unknown environments and parameters are faults", "[unit]") {
  CHECK_THROWS_WITH(test::make_env("cart_pol"), Catch::Contains("unknown env"));
  CHECK_THROWS_WITH(test::make_env("contextual_bandit", R"({"arm": 3})"), Catch::Contains("test:/arm"));
}

TEST_CASE("contextual bandit: regret is 0 for the best arm alone, rewards average to what is expected", "[unit]") {
  const auto env = test::make_env("contextual_bandit", R"({"arms": 3, "features": 2, "noise": 0})");
  TimeStep now;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::vector<double> rewards, regrets;
    for (const double arm : {0.0, 1.0, 2.0}) {
      env->reset(seed, now);
      env->step(std::vector<double>{arm}, now);
      CHECK(now.terminated);
      rewards.push_back(now.rewards[0]);
      regrets.push_back(now.info[0]);
    }
    const double best = *std::max_element(rewards.begin(), rewards.end());
    for (std::size_t arm = 0; arm < 3; ++arm) CHECK(regrets[arm] == Approx(best - rewards[arm]).margin(1e-15));
  }
}

}  // namespace test_envs
