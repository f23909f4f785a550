// Environments backed by serving runs: an episode is the run that the same decisions would make.
#include <catch2/catch.hpp>
#include <numeric>

#include "experiments/rl/core/pausable.hpp"
#include "experiments/systems/serving/system.hpp"
#include "served.hpp"
#include "support.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::rl::test_serving_envs {
namespace {

using namespace test;

const std::string kConfig = std::string(ORRERY_SOURCE_DIR) + "/experiments/studies/first_light.json";

std::string params(const std::string& more, const std::string& override_ = "{}") {
  return R"({"config": ")" + kConfig + R"(", "requests": 60, "override": )" + override_ +
         (more.empty() ? "" : ", " + more) + "}";
}

const char* const kThree = R"({"machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 3}]},
                               "workload": {"rate_scale": 4}, "replica": {"tensor_parallel": 1},
                               "cluster": {"replicas": [{"count": 3}]}})";

/// Plays an episode; `choose` sees the step and gives the choice.
template <class Choose>
std::vector<double> play(Env& env, std::uint64_t seed, Choose choose, double* total = nullptr) {
  TimeStep now;
  env.reset(seed, now);
  std::vector<double> trace;
  double sum = 0;
  while (!now.ended()) {
    check_step(env.spec(), now);
    const std::vector<double> action{choose(now)};
    check_action(env.spec(), now.mask, action);
    env.step(action, now);
    sum += now.rewards[0];
    trace.insert(trace.end(), now.observation.begin(), now.observation.end());
    trace.push_back(now.rewards[0]);
    trace.push_back(now.info[0]);
  }
  if (total != nullptr) *total = sum;
  return trace;
}

TEST_CASE("a paused run goes on where it stopped, throws to who resumes it, and unwinds when dropped", "[unit]") {
  std::vector<int> seen;
  PausableRun run([&](PausableRun& self) {
    for (int i = 0; i < 3; ++i) {
      seen.push_back(i);
      self.pause();
    }
  });
  CHECK(seen.empty());
  CHECK(run.resume());
  CHECK(seen == std::vector<int>{0});
  CHECK(run.resume());
  CHECK(run.resume());
  CHECK_FALSE(run.resume());
  CHECK_THROWS_AS(run.resume(), std::logic_error);
  PausableRun broken([](PausableRun& self) {
    self.pause();
    throw std::runtime_error("broken");
  });
  CHECK(broken.resume());
  CHECK_THROWS_WITH(broken.resume(), "broken");
  bool unwound = false;
  {
    PausableRun dropped([&](PausableRun& self) {
      struct Mark {
        bool& set;
        ~Mark() { set = true; }
      } mark{unwound};
      self.pause();
    });
    CHECK(dropped.resume());
    CHECK_FALSE(unwound);
  }
  CHECK(unwound);
}

TEST_CASE("routing by hand is round robin, request by request", "[unit]") {
  const auto env = make_env("serving_routing", params("", kThree));
  REQUIRE(env->spec().agents[0].action.choices == std::vector<std::int64_t>{3});
  double total = 0, turn = 0;
  int decisions = 0;
  (void)play(
      *env, 0,
      [&](const TimeStep&) {
        ++decisions;
        const double chosen = turn;
        turn = chosen == 2 ? 0 : chosen + 1;
        return chosen;
      },
      &total);
  CHECK(decisions == 60);  // one a request
  // The same run with the policy of that name: rewards are the negative sum of latencies.
  const double latency = latencies(kConfig, kThree, 60, {"policies.routing.policy=round_robin"});
  CHECK(total == Approx(-latency).epsilon(1e-12));
}

TEST_CASE("episodes are functions of seed and actions; dropping one in the middle is harmless", "[prop]") {
  const std::string batching = params(
      R"("choices": [{"policy": "vllm_v1"}, {"policy": "sarathi", "sarathi": {"token_budget": 256}}, {"policy": "orca"}])");
  const std::string scaling = params(
      "", R"({"machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 2}]}, "replica": {"tensor_parallel": 1},
              "cluster": {"replicas": [{"count": 2}]}, "policies": {"scaling": {"policy": "fixed"}}})");
  const std::pair<std::string, std::string> all[] = {{"serving_routing", params("", kThree)},
                                                     {"serving_batching", batching},
                                                     {"serving_admission", params("")},
                                                     {"serving_scaling", scaling}};
  for (const auto& [name, config] : all) {
    INFO(name);
    const auto a = make_env(name, config), b = make_env(name, config);
    const auto random_play = [&](Env& env, std::uint64_t seed) {
      sim::RandomStream random(seed, "actions");
      return play(env, seed, [&](const TimeStep& now) { return random_action(env.spec(), now, random)[0]; });
    };
    const std::vector<double> first = random_play(*a, 5);
    CHECK_FALSE(first.empty());
    TimeStep now;
    a->reset(6, now);  // left after its first decision
    CHECK(random_play(*a, 5) == first);
    CHECK(random_play(*b, 5) == first);
  }
}

TEST_CASE("an episode begun again has the same draws, and is held against the same run", "[prop]") {
  // What the config's own policy does is kept while the seed stays, and only then.
  const std::pair<std::string, std::string> all[] = {
      {"serving_routing", params(R"("relative": true, "tail": 0.5, "windows": 4)", kThree)},
      {"expert_cache", R"({"generator": {"experts": 16, "top_k": 2}, "tokens": 40, "slots": [3, 5, 7]})"}};
  for (const auto& [name, config] : all) {
    const auto last_info = [&](Env& env, std::uint64_t seed, std::uint64_t way) {
      sim::RandomStream random(way, "actions");
      TimeStep now;
      for (env.reset(seed, now); !now.ended();) env.step(random_action(env.spec(), now, random), now);
      std::vector<double> all_of_it = now.info;
      all_of_it.insert(all_of_it.end(), now.rewards.begin(), now.rewards.end());
      return all_of_it;
    };
    const auto used = make_env(name, config);
    std::vector<std::vector<double>> seen;
    for (const auto& [seed, way] : {std::pair{5, 1}, {5, 2}, {6, 2}, {5, 2}, {7, 1}, {5, 1}}) {
      CAPTURE(name, seed, way);
      const auto own = static_cast<std::uint64_t>(seed), by = static_cast<std::uint64_t>(way);
      seen.push_back(last_info(*used, own, by));
      CHECK(seen.back() == last_info(*make_env(name, config), own, by));
    }
    CHECK(seen[1] == seen[3]);
    CHECK(seen[1] != seen[2]);
  }
}

TEST_CASE("turning everybody away costs what it says", "[unit]") {
  const auto env = make_env("serving_admission", params(R"("rejected": -2)"));
  double total = 0;
  (void)play(
      *env, 0, [](const TimeStep&) { return 0.0; }, &total);
  CHECK(total == -120);  // 60 requests
}

TEST_CASE("episodes begin at places of the trace that the seed chooses", "[unit]") {
  const auto of = [](const std::string& more, const std::string& over, std::uint64_t seed) {
    const auto env = make_env("serving_routing", params(more, over));
    return play(*env, seed, [](const TimeStep&) { return 0.0; });
  };
  const std::string three = kThree;
  // Four places in 2,000 requests of which 60 are played: 0, a third of 1,940, two thirds of it, 1,940.
  CHECK(of(R"("windows": 4)", three, 8) == of("", three, 8));
  const auto skipping = [&](int count) {
    std::string over = three;
    return over.replace(over.find("\"rate_scale\""), 0, "\"skip\": " + std::to_string(count) + ", ");
  };
  CHECK(of(R"("windows": 4)", three, 9) == of("", skipping(646), 9));
  CHECK(of(R"("windows": 4)", three, 11) == of("", skipping(1940), 11));
  CHECK(of(R"("windows": 4)", three, 9) != of("", three, 9));
  CHECK_THROWS_WITH(of(R"("windows": 2)", skipping(1950), 1),
                    Catch::Contains("expected a trace of more than 60 requests for 2 windows, got 50"));
  const char* drawn = R"({"workload": {"trace": null, "generator": {"requests": 80,
    "arrivals": {"policy": "at_once"}, "lengths": {"policy": "fixed", "fixed": {"prompt": 9, "output": 9}}}}})";
  CHECK_THROWS_WITH(of(R"("windows": 2)", drawn, 1), Catch::Contains("expected a trace where 'windows' is above 1"));
}

TEST_CASE("relative to its own policy: nothing where it does the same, energy that a lower clock saves", "[unit]") {
  // Two clocks; the config's own policy always takes the highest.
  const std::string over = R"({"machine": {"devices": [{"part": "a100-sxm4-80gb", "clocks": ["1.41 GHz", "0.81 GHz"]}]},
                               "replica": {"tensor_parallel": 1}})";
  const auto played = [&](double choice, const std::string& more) {
    const auto env = make_env("serving_clock", params(R"("relative": true)" + more, over));
    double total = 0;
    TimeStep now;
    env->reset(1, now);
    while (!now.ended()) {
      env->step(std::vector<double>{choice}, now);
      total += now.rewards[0];
    }
    CHECK(env->spec().info == std::vector<std::string>{"time_s", "ended", "mean_gain", "worst_gain", "energy_saved"});
    return std::pair(total, now.info);
  };
  const auto [nothing, same] = played(0, R"(, "tail": 1, "energy": 1)");
  CHECK(nothing == 0);
  CHECK(same[2] == 0);
  CHECK(same[4] == 0);
  // What is saved is energy and not time: requests last longer.
  const auto [plain, slow] = played(1, "");
  CHECK(slow[2] < 0);
  CHECK(slow[4] > 0);
  CHECK(plain == slow[2]);
  CHECK(played(1, R"(, "tail": 0.5, "energy": 2)").first == slow[2] + 0.5 * slow[3] + 2 * slow[4]);
}

TEST_CASE("an episode compared with several configs is compared as with each alone", "[unit]") {
  const char* const least = R"({"policies": {"routing": {"policy": "least_loaded"}}})";
  const char* const random = R"({"policies": {"routing": {"policy": "random"}}})";
  const auto over = [](const char* changes) {
    sim::Node all = sim::parse_json(kThree, "over");
    sim::merge_over(all, sim::parse_json(changes, "over"));
    return all.dump();
  };
  const auto played = [](const std::string& text) {
    const auto env = make_env("serving_routing", text);
    std::vector<std::vector<double>> all;
    for (const std::uint64_t seed : {1, 2, 2}) {
      TimeStep now;
      env->reset(seed, now);
      std::size_t turn = 0;
      while (!now.ended()) env->step(std::vector<double>{static_cast<double>(turn++ % 3)}, now);
      all.push_back(now.info);
      all.back().push_back(now.rewards[0]);
    }
    return std::pair(env->spec().info, all);
  };
  const std::string relative = R"("relative": true, "tail": 0.5)";
  const auto [names, both] = played(params(relative + R"(, "against": [{"name": "least", "override": )" + least +
                                               R"(}, {"name": "own"}, {"name": "random", "override": )" + random + "}]",
                                           kThree));
  REQUIRE(names.size() == 2 + 3 * 4);
  CHECK(names[5] == "least_mean_gain");
  CHECK(names[13] == "random_energy_saved");
  const auto alone = played(params(relative, kThree)).second;
  const auto first = played(params(relative, over(least))).second, last = played(params(relative, over(random))).second;
  for (std::size_t episode = 0; episode < both.size(); ++episode) {
    const std::vector<double>& all = both[episode];
    for (std::size_t figure = 0; figure < 3; ++figure) {
      CHECK(all[2 + figure] == alone[episode][2 + figure]);
      CHECK(all[5 + figure] == first[episode][2 + figure]);
      CHECK(all[8 + figure] == all[2 + figure]);  // itself
      CHECK(all[11 + figure] == last[episode][2 + figure]);
    }
    CHECK(all.back() == alone[episode].back());  // the reward is over the config's own policy
    CHECK(all[5] != all[2]);
  }
  CHECK(both[1] == both[2]);
  CHECK_THROWS_WITH(make_env("serving_routing", params(R"("against": [{"name": "own"}])", kThree)),
                    Catch::Contains("expected no 'against' without 'relative'"));
  const auto fault = [&](const std::string& against, const std::string& text) {
    CHECK_THROWS_WITH(make_env("serving_routing", params(relative + R"(, "against": [)" + against + "]", kThree)),
                      Catch::Contains(text));
  };
  fault(R"({"name": ""})", "'against': expected a name of letters, digits, '_' and '-', got ''");
  fault(R"({"name": "a,b"})", "got 'a,b'");
  fault(R"({"name": "a"}, {"name": "a"})", "'against': two configs are named 'a'");
  fault(R"({"name": "a", "override": {"workload": {"rate_scale": 1}}})", "got changes to 'workload'");
  fault(R"({"name": "a", "override": {"run": {"tick": "1 us"}}})", "got changes to 'run'");
}

TEST_CASE("faults of environments of serving", "[unit]") {
  CHECK_THROWS_AS(make_env("serving_batching", params(R"("choices": [{"policy": "orca"}])")), std::invalid_argument);
  CHECK_THROWS_AS(make_env("serving_batching", params(R"("choices": [{"policy": "orca"}, {"policy": "orcca"}])")),
                  sim::ConfigError);
  CHECK_THROWS_AS(make_env("serving_routing", R"({"config": "/nowhere.json"})"), sim::ConfigError);
  CHECK_THROWS_AS(make_env("serving_routing", params("", R"({"model": {"config": "llama-3-70b"}})")),
                  std::invalid_argument);  // does not fit
}

}  // namespace
}  // namespace orrery::experiments::rl::test_serving_envs
