// The expert cache as an environment and as a policy from a file.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "experiments/experts/cache_trial.hpp"
#include "experiments/rl/envs/decisions.hpp"
#include "experiments/rl/play.hpp"
#include "experiments/rl/policy_file.hpp"
#include "tests/rl/train_support.hpp"
#include "traces/router/generator.hpp"

namespace orrery::experiments::rl::test_expert_cache {
namespace {

using namespace test;
using Catch::Contains;

/// Texts of 16 experts, two a token.
const std::string kDrawn = R"("generator": {"experts": 16, "top_k": 2}, "tokens": 60, "slots": [4, 6])";

traces::RouterTrace drawn(std::uint64_t seed) {
  return traces::generate_router_trace({.experts = 16, .top_k = 2, .tokens = 60, .layers = 1}, seed);
}

policies::ExpertCacheRegistry::Choice cache(const std::string& name, const std::string& params = "{}") {
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  auto choice = test_systems().registry<policies::ExpertCacheRegistry>().prepare(name, &node, kHere, faults);
  faults.throw_if_any();
  return choice;
}

PolicyFile trained(const std::string& params) {
  return test::trained("expert_cache", params, "evolution", R"({"population": 6, "episodes": 2})", 4000);
}

TEST_CASE("an expert cache is shown who may go, and what was loaded counts", "[unit]") {
  const Scratch scratch;
  const std::string file = (scratch.path / "r.bin").string();
  // Four experts, one a token: 0 1 2 0 1 with two slots. lru misses all five.
  traces::write_router_trace({.experts = 4, .top_k = 1, .layers = {{.layer = 0, .choices = {0, 1, 2, 0, 1}}}}, file);
  const auto env = make_env("expert_cache", R"({"trace": ")" + file + R"(", "tokens": 5, "slots": [2]})");
  TimeStep now;
  env->reset(7, now);
  CHECK(env->spec().agents[0].per_choice == 5);
  CHECK(now.mask == std::vector<std::uint8_t>{1, 1, 0, 0});  // 2 comes
  // Three requests so far: 0 was asked for two before the last, once; there are no two that asked for it.
  const std::vector<double> zero{std::log1p(2), std::log1p(3), std::log1p(1), std::log1p(std::exp(-2 / 64.0)),
                                 std::log1p(std::exp(-2 / 512.0))};
  for (std::size_t i = 0; i < zero.size(); ++i) CHECK(now.observation[i] == Approx(zero[i]));
  CHECK(now.observation[5] == Approx(std::log1p(1)));  // 1 was asked for one before
  for (std::size_t i = 10; i < 20; ++i) CHECK(now.observation[i] == 0);
  CHECK(now.observation[20] == 0.5);  // two slots of four
  CHECK(now.advice[0] == 0);          // the least recently used
  // 1 goes: 2 is loaded (a fifth), 0 is there, and 1 comes, for which 0 or 2 goes.
  env->step(std::vector<double>{1}, now);
  CHECK(now.rewards[0] == Approx(-0.2));
  CHECK(now.mask == std::vector<std::uint8_t>{1, 0, 1, 0});
  CHECK(now.observation[0] == Approx(std::log1p(1)));  // 0 was asked for just before
  CHECK(now.observation[1] == Approx(std::log1p(3)));  // its requests were the first and the fourth
  env->step(std::vector<double>{0}, now);
  CHECK(now.terminated);
  CHECK(now.rewards[0] == Approx(-0.6));  // 1, and the two that were loaded before anything was decided
  CHECK(now.info[0] == Approx(0.2));      // one hit of five
  CHECK(now.info[1] == Approx(0.2));      // four misses where lru has five
}

TEST_CASE("an expert cache that follows a rule misses as often as the rule", "[property]") {
  for (const std::string rule : {"lru", "lfu", "frequent_recent", "ring"}) {
    const auto env = make_env("expert_cache", "{" + kDrawn + R"(, "rule": {"policy": ")" + rule + R"("}})");
    CHECK(env->spec().rule == rule);
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      TimeStep now;
      env->reset(seed, now);
      double sum = 0;
      while (!now.ended()) {
        check_step(env->spec(), now);
        env->step(std::vector<double>(now.advice), now);
        if (!now.ended()) CHECK(now.rewards[0] < 0);  // whoever went made room for one that was loaded
        sum += now.rewards[0];
      }
      check_step(env->spec(), now);
      CHECK(sum == Approx(-1));
      CHECK(now.info[1] == 0);
      // And the rate is that of the same trace played without an environment, with one of the two numbers of slots.
      const double few = play_layer(drawn(seed), 0, cache(rule), {.slots = 4}).hit_rate();
      const double many = play_layer(drawn(seed), 0, cache(rule), {.slots = 6}).hit_rate();
      CHECK((now.info[0] == few || now.info[0] == many));
    }
  }
}

TEST_CASE("an expert cache with few slots, and with enough", "[unit]") {
  // Three experts a token and two slots: the one that comes may be the one that goes.
  const auto few = make_env("expert_cache", R"({"generator": {"experts": 8, "top_k": 3}, "tokens": 4, "slots": [2]})");
  TimeStep now;
  few->reset(1, now);
  CHECK(std::count(now.mask.begin(), now.mask.end(), 1) == 3);  // two that are there and the one that comes
  double sum = 0;
  while (!now.ended()) {
    few->step(std::vector<double>(now.advice), now);
    sum += now.rewards[0];
  }
  CHECK(sum == Approx(-1));
  // As many slots as experts: nobody goes, and the first step ends the episode.
  const auto enough =
      make_env("expert_cache", R"({"generator": {"experts": 8, "top_k": 3}, "tokens": 4, "slots": [9]})");
  enough->reset(1, now);
  CHECK(now.terminated);
  CHECK(now.info[1] == 0);
}

TEST_CASE("what an asking expert cache shows of batches and of nested weights", "[unit]") {
  struct Port final : DecisionPort {
    std::vector<double> seen = std::vector<double>(21);
    std::vector<std::uint8_t> allowed = std::vector<std::uint8_t>(4);
    double action = 0;
    void begin(const EnvSpec&) override {}
    std::span<double> observation() override { return seen; }
    std::span<std::uint8_t> mask() override { return allowed; }
    void add_reward(double) override {}
    std::span<const double> ask(sim::Time) override { return {&action, 1}; }
  };
  const auto port = std::make_shared<Port>();
  const std::vector<std::uint8_t> sizes{4, 2, 4, 2};
  const auto asking = asking_expert_cache(port, {.experts = 4, .slots = 6, .sizes = sizes});
  // Two tokens of a batch ask for 3, which was asked for two requests before: that is the gap, not 0 between the
  // tokens.
  asking->ask({.first = 0, .experts = std::vector<std::uint16_t>{3, 2}, .scores = {}});
  asking->ask({.first = 2, .experts = std::vector<std::uint16_t>{3, 3}, .scores = {}});
  (void)asking->evict(std::vector<std::uint16_t>{0, 3});
  CHECK(port->seen[3 * 5 + 1] == Approx(std::log1p(2)));
  CHECK(port->seen[20] == 0.5);  // 6 slots of the 12 that all levels take
}

TEST_CASE("an expert cache from a file acts as it was trained", "[unit]") {
  const Scratch scratch;
  const std::string params = "{" + kDrawn + "}";
  const PolicyFile policy = trained(params);
  const std::string file = (scratch.path / "cache.policy").string();
  write_policy(file, policy);
  const auto env =
      make_env("expert_cache", R"({"generator": {"experts": 16, "top_k": 2}, "tokens": 60, "slots": [5]})");
  const auto learner = learner_of(read_policy(file), env->spec(), test_systems().registry<LearnerRegistry>());
  const auto loaded = cache("learned", R"({"file": ")" + file + "\"}");
  int unlike = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    TimeStep now;
    env->reset(seed, now);
    std::vector<double> action(1);
    while (!now.ended()) {
      learner->act({1, now.observation, now.mask}, Act::greedy, action);
      env->step(action, now);
    }
    CHECK(now.info[0] == play_layer(drawn(seed), 0, loaded, {.slots = 5}).hit_rate());
    unlike += now.info[1] != 0;
  }
  CHECK(unlike > 0);  // it is no lru
  // A policy judges each expert by one rule: it acts for any number of them.
  const traces::RouterTrace other = traces::generate_router_trace({.experts = 40, .top_k = 4, .tokens = 30}, 3);
  CHECK(play_layer(other, 0, loaded, {.slots = 10}).requests == 120);
}

TEST_CASE("an expert cache from a file decides runs that offload experts", "[unit]") {
  const Scratch scratch;
  const std::string file = (scratch.path / "cache.policy").string(), config = (scratch.path / "run.json").string();
  write_policy(file, trained("{" + kDrawn + "}"));
  std::ofstream(config) << R"({"kind": "experiment", "version": 1, "system": "experts",
      "machine": {"part": "rtx-a6000", "link": "pcie4-x16", "override": {"memory": "1 TiB"}},
      "model": {"config": "catalog:qwen3-30b-a3b"},
      "workload": {"router": {"generator": {"tokens": 32, "layers": 2}}},
      "policies": {"schedule": {"policy": "fetch"}, "share": 0.25}})";
  PlayOptions options{.policy = file, .config = config, .against = {"lru", "belady"}, .seeds = 2};
  const sim::Node played = play(test_systems(), options);
  CHECK(played.find("decision")->as_string() == "cache");
  const auto rate = [&](std::size_t row) {
    return played.find("rows")->items()[row].find("figures")->find("cache.hit_rate")->find("p50")->as_number();
  };
  CHECK(rate(0) != rate(1));
  CHECK(rate(2) >= rate(0));  // which knows what comes
  CHECK(rate(2) > rate(1));
  CHECK_THAT(play_text(played), Contains("policies.cache") && Contains("hit rate") && Contains("tokens/s"));
  // Without a config its episodes are played, and rules have nothing to run.
  options.config.clear();
  CHECK_THAT(fault_of([&] { (void)play(test_systems(), options); }), Contains("expected a config of system experts"));
  options.against.clear();
  CHECK(play(test_systems(), options).find("episodes")->find("gain")->is_number());
}

TEST_CASE("faults of an expert cache that learns", "[unit]") {
  const Scratch scratch;
  const std::string file = (scratch.path / "r.bin").string();
  traces::write_router_trace({.experts = 4, .top_k = 1, .layers = {{.layer = 0, .choices = {0, 1, 2, 0, 1}}}}, file);
  const auto refused = [](const std::string& params) { return [params] { (void)make_env("expert_cache", params); }; };
  const auto fault = [](const std::string& params) {
    return fault_of([&] { (void)make_env("expert_cache", params); });
  };
  CHECK_THROWS_WITH(refused(R"({"trace": ")" + file + "\"}")(), Contains("at least as many tokens as an episode has"));
  CHECK_THROWS_WITH(refused(R"({"slots": []})")(), Contains("expected at least one number of 'slots'"));
  CHECK_THAT(fault(R"({"rule": {"policy": "lur"}})"), Contains("lru"));
  CHECK_THROWS_WITH(refused(R"({"rule": {"policy": "static"}})")(), Contains("says who goes whenever an expert comes"));
  CHECK_THROWS_WITH(refused(R"({"rule": {"policy": "mrs"}})")(), Contains("needs the router's scores"));
  CHECK_THROWS_WITH(refused(R"({"generator": {"top_k": 200}})")(),
                    Contains("generator: more activated experts than exist"));
  CHECK_THROWS_WITH(refused(R"({"tokens": 1000000, "generator": {"experts": 256}})")(), Contains("at most 2^27"));
  CHECK_THAT(fault_of([&] { (void)cache("learned").make({.experts = 4, .slots = 2}); }), Contains("file"));
  const std::string other = (scratch.path / "other.policy").string();
  write_policy(other, test::trained("contextual_bandit", "{}", "lin_ucb", "{}", 400));
  CHECK_THAT(fault_of([&] { (void)cache("learned", R"({"file": ")" + other + "\"}"); }),
             Contains("expected a policy of the environment 'expert_cache', found one of 'contextual_bandit'"));
}

}  // namespace
}  // namespace orrery::experiments::rl::test_expert_cache
