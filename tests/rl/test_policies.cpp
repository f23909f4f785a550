// Policies as files: what was trained acts alike wherever it is put, and is refused where it cannot act.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "experiments/rl/core/action_head.hpp"
#include "experiments/rl/core/reading.hpp"
#include "experiments/rl/play.hpp"
#include "experiments/rl/policy_file.hpp"
#include "served.hpp"
#include "train_support.hpp"

namespace orrery::experiments::rl::test_policies {
namespace {

using namespace test;
using Catch::Contains;
namespace fs = std::filesystem;

const std::string kConfig = std::string(ORRERY_SOURCE_DIR) + "/experiments/studies/first_light.json";

struct Scratch {
  fs::path path = fs::temp_directory_path() / ("orrery-policy-" + std::to_string(std::rand()));
  Scratch() { fs::create_directories(path); }
  ~Scratch() { fs::remove_all(path); }
};

std::string cluster(int replicas) {
  const std::string n = std::to_string(replicas);
  return R"({"machine": {"devices": [{"part": "a100-sxm4-80gb", "count": )" + n +
         R"(, "clocks": ["1.41 GHz", "0.81 GHz"]}]}, "workload": {"rate_scale": 6}, "replica": {"tensor_parallel": 1},
             "cluster": {"replicas": [{"count": )" +
         n + "}]}}";
}

struct Decision {
  const char *env, *name, *more;
};
const Decision kDecisions[] = {{"serving_routing", "routing", ""},
                               {"serving_batching", "batching", ""},
                               {"serving_admission", "admission", ""},
                               {"serving_scaling", "scaling", R"(, "replica_cost": 0)"},
                               {"serving_clock", "power", R"(, "joule": 0)"}};

std::string env_params(const Decision& decision, int replicas = 3, const std::string& more = "") {
  return R"({"config": ")" + kConfig + R"(", "requests": 80, "reward": "e2e", "override": )" + cluster(replicas) +
         decision.more + more + "}";
}

/// A short training and what it leaves.
PolicyFile trained(const Decision& decision, const std::string& learner, const std::string& learner_params,
                   const std::string& params) {
  return test::trained(decision.env, params, learner, learner_params, 2000);
}

double latencies(const std::string& over, const std::vector<std::string>& set) {
  return test::latencies(kConfig, over, 80, set);
}

std::vector<std::string> put(const Decision& decision, const fs::path& file) {
  const std::string at = std::string("policies.") + decision.name;
  return {at + ".policy=learned", at + ".learned.file=" + file.string()};
}

TEST_CASE("a policy from a file acts in a run as it did in its environment", "[policies][prop]") {
  Scratch scratch;
  for (const Decision& decision : kDecisions)
    for (const auto& [learner, params] : {std::pair{"evolution", R"({"population": 4, "episodes": 1})"},
                                          {"ppo", R"({"horizon": 64})"},
                                          {"dqn", "{}"},
                                          {"dagger", R"({"begin": 16, "batch": 16})"}}) {
      CAPTURE(decision.env, learner);
      // Who imitates needs a rule while it is trained, and none in a run.
      if (learner == std::string("dagger") && make_env(decision.env, env_params(decision))->spec().rule.empty())
        continue;
      const PolicyFile policy = trained(decision, learner, params, env_params(decision));
      write_policy(scratch.path / "p", policy);
      const PolicyFile back = read_policy(scratch.path / "p");
      CHECK(back.bytes == policy.bytes);
      // An episode of seed 0 is the config's own run; its gain over the config's policy follows from the two runs.
      const auto env = make_env(decision.env, env_params(decision, 3, R"(, "relative": true)"));
      const auto loaded = learner_of(back, env->spec(), test_systems().registry<LearnerRegistry>());
      TimeStep now;
      env->reset(0, now);
      std::vector<double> action(1);
      while (!now.ended()) {
        loaded->act({1, now.observation, now.mask}, Act::greedy, action);
        env->step(action, now);
      }
      const double own = latencies(cluster(3), {}), learned = latencies(cluster(3), put(decision, scratch.path / "p"));
      CHECK(now.info[2] == Approx((own - learned) / own).margin(1e-12));
    }
}

TEST_CASE("a router that judges replicas by one rule routes among any number of them", "[policies]") {
  Scratch scratch;
  const Decision& routing = kDecisions[0];
  write_policy(scratch.path / "p",
               trained(routing, "evolution", R"({"population": 4, "episodes": 1})", env_params(routing)));
  CHECK(latencies(cluster(5), put(routing, scratch.path / "p")) > 0);
  // The number of clocks is part of what was learned.
  const Decision& clock = kDecisions[4];
  write_policy(scratch.path / "c", trained(clock, "ppo", "{}", env_params(clock)));
  std::string more = cluster(3);
  more.replace(more.find("\"0.81 GHz\""), 10, "\"1.11 GHz\", \"0.81 GHz\"");
  CHECK_THAT(fault_of([&] { (void)latencies(more, put(clock, scratch.path / "c")); }),
             Contains("the policy was trained on other spaces: it has 2 choices, this run 3"));
}

TEST_CASE("a policy of a file that ships names no folder of this machine", "[policies]") {
  Scratch scratch;
  const Decision& routing = kDecisions[0];
  const PolicyFile policy = trained(routing, "evolution", R"({"population": 4, "episodes": 1})", env_params(routing));
  write_policy(scratch.path / "p", policy);
  std::ifstream file(scratch.path / "p", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  CHECK(bytes.find(home_folder().string()) == std::string::npos);
  CHECK(fs::path(read_policy(scratch.path / "p").env_params.find("config")->as_string()) == fs::path(kConfig));
}

TEST_CASE("what is no policy for the decision is told when the config is read", "[policies]") {
  Scratch scratch;
  const Decision &routing = kDecisions[0], &admission = kDecisions[2];
  const PolicyFile policy = trained(routing, "evolution", R"({"population": 4, "episodes": 1})", env_params(routing));
  write_policy(scratch.path / "p", policy);
  const auto told = [&](const Decision& decision, const char* file) {
    return fault_of([&] { (void)latencies(cluster(3), put(decision, scratch.path / file)); });
  };
  CHECK_THAT(told(admission, "p"), Contains("expected a policy of the environment 'serving_admission', found one of "
                                            "'serving_routing' (policies.routing takes it)"));
  CHECK_THAT(told(routing, "none"), Contains("expected a policy of `orrery train` (seed-N.policy), found no file"));
  std::ofstream(scratch.path / "text") << "weights";
  CHECK_THAT(told(routing, "text"), Contains("expected a policy of `orrery train`, found something else"));
  CHECK(fault_of([&] { (void)latencies(cluster(3), {"policies.routing.policy=learned"}); }) ==
        "/policies/routing/learned/file: expected a policy of `orrery train`, got nothing");
  Archive archive;
  std::string text = "state";
  archive(text);
  write_checkpoint(scratch.path / "ckpt", "a training", archive);
  CHECK_THAT(told(routing, "ckpt"), Contains("expected a policy, found the checkpoint of a training"));
  std::string bytes;
  {
    std::ifstream file(scratch.path / "p", std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  for (const std::size_t keep : {bytes.size() - 1, bytes.size() / 2, std::size_t{40}}) {
    std::ofstream(scratch.path / "cut", std::ios::binary) << bytes.substr(0, keep);
    CHECK_THAT(told(routing, "cut"), Contains("not whole"));
  }
  PolicyFile other = policy;
  other.spec.agents[0].observation[3].name = "moods_0";
  write_policy(scratch.path / "other", other);
  CHECK_THAT(told(routing, "other"), Contains("it reads 'moods_0' where this run shows 'waiting_0'"));
  PolicyFile grouped = policy;
  grouped.regrouped = true;
  write_policy(scratch.path / "grouped", grouped);
  CHECK_THAT(told(routing, "grouped"), Contains("train.agents: as_is"));
}

TEST_CASE("each choice is judged from its own entries and those that all share", "[policies][unit]") {
  AgentSpec agent{.action = ActionSpace::discrete(3), .per_choice = 2};
  agent.observation.resize(7);
  const Reading reading(agent);
  MatrixXd rows(7, 2);
  rows << 1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60, 9, 90;
  const MatrixXd apart = reading.apart(rows);
  MatrixXd expected(3, 6);
  expected << 1, 3, 5, 10, 30, 50,  // the first entry of each choice
      2, 4, 6, 20, 40, 60, 9, 9, 9, 90, 90, 90;
  CHECK(apart == expected);
  CHECK(reading.together(apart) == rows);
  // Replicas that change places change the choice with them.
  EnvSpec spec{.agents = {agent}};
  sim::RandomStream random(3, "test");
  const auto learner = learner_factory("ppo", "{}")({spec, 1, 1000, sim::RandomStream(1, "net")});
  for (int i = 0; i < 100; ++i) {
    std::vector<double> seen(7), turned, action(1), other(1);
    for (double& x : seen) x = random.normal();
    turned.insert(turned.end(), seen.begin() + 2, seen.begin() + 6);
    turned.insert(turned.end(), seen.begin(), seen.begin() + 2);
    turned.push_back(seen[6]);
    learner->act({1, seen, {}}, Act::greedy, action);
    learner->act({1, turned, {}}, Act::greedy, other);
    CHECK(static_cast<int>(other[0] + 1) % 3 == static_cast<int>(action[0]));
  }
}

TEST_CASE("worth against the config's own policy is 0 for the same decisions", "[policies]") {
  const auto env = make_env("serving_routing", R"({"config": ")" + kConfig +
                                                   R"(", "requests": 80, "relative": true, "tail": 0.5, "override":
      {"machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 3}]}, "workload": {"rate_scale": 6},
       "replica": {"tensor_parallel": 1}, "cluster": {"replicas": [{"count": 3}]},
       "policies": {"routing": {"policy": "round_robin"}}}})");
  for (const bool same : {true, false}) {
    TimeStep now;
    env->reset(12, now);
    double total = 0, turn = 0;
    for (; !now.ended(); turn = same ? (turn == 2 ? 0 : turn + 1) : 0) {
      env->step(std::vector{turn}, now);
      if (!now.ended()) CHECK(now.rewards[0] == 0);  // one reward, at the end
      total += now.rewards[0];
    }
    CHECK(total == now.info[2] + 0.5 * now.info[3]);
    if (same)
      CHECK(total == 0);
    else
      CHECK((now.info[2] < -0.1 && now.info[3] < -0.1));  // all to one replica of three
  }
}

TEST_CASE("evolution learns what a weighted sum can do", "[policies]") {
  TrainingPlan plan = test::plan("cart_pole", "{}", "evolution", R"({"episodes": 2})", 60'000, 8);
  Training training(plan);
  while (!training.done()) training.advance();
  CHECK(training.curve().back().eval_return == Approx(500));  // the pole stands to the end of all twenty episodes
}

TEST_CASE("evolution on the same draws: every set of weights plays the same episodes, however long they are",
          "[policies]") {
  // Seven sets of weights on three environments, four episodes each, whose lengths are drawn: what each episode began
  // with, by set, is the same list for all, and new in the next generation.
  LearnerSetup setup{.spec = test::make_env("cart_pole", "{}")->spec(), .envs = 3, .steps = 10'000};
  const TrainingPlan plan =
      test::plan("cart_pole", "{}", "evolution", R"({"population": 7, "episodes": 4, "same_draws": true})", 100, 3);
  const auto learner = make_learner(plan, setup.spec);
  REQUIRE(learner->draws());
  sim::RandomStream random(3, "lengths");
  const std::size_t width = setup.spec.observation_size();
  const std::vector<double> seen(3 * width, 0.1), actions(3, 0.0), rewards(3, 1.0);
  const std::vector<std::uint8_t> no(3, 0);
  const auto generation = [&] { return static_cast<int>(learner->figures().front().second); };
  std::map<int, std::map<std::uint64_t, int>> played;  // by generation: how many episodes began with a number
  std::vector<double> out(3);
  for (std::size_t i = 0; i < 3; ++i) ++played[0][learner->draw(i)];
  for (int step = 0; step < 2000 && generation() < 6; ++step) {
    const View view{3, seen, {}, {}};
    learner->act(view, Act::explore, out);
    std::vector<std::uint8_t> ended(3);
    for (std::uint8_t& one : ended) one = random.below(4) == 0 ? 1 : 0;
    learner->learn({view, actions, rewards, ended, no, view});
    for (std::size_t i = 0; i < 3; ++i)
      if (ended[i] != 0) ++played[generation()][learner->draw(i)];
  }
  REQUIRE(generation() == 6);
  for (int g = 1; g < 6; ++g) {
    std::uint64_t number = static_cast<std::uint64_t>(4 * g);
    REQUIRE(played[g].size() == 4);
    for (const auto& [draw, times] : played[g]) {
      CHECK(draw == number++);
      CHECK(times >= 7);  // each of the sets, and who waited for the last of them
      CHECK(times <= 7 + (number == static_cast<std::uint64_t>(4 * g + 4) ? 40 : 0));
    }
  }
  CHECK_FALSE(make_learner(test::plan("cart_pole", "{}", "evolution", "{}", 100, 3), setup.spec)->draws());
  // It still learns, alone and as one of several agents, whose members agree on the draws.
  Training training(test::plan("cart_pole", "{}", "evolution", R"({"episodes": 2, "same_draws": true})", 60'000, 8));
  while (!training.done()) training.advance();
  CHECK(training.curve().back().eval_return == Approx(500));
  const auto curve = [](const char* params) {
    Training several(test::plan("rendezvous", "{}", "evolution", params, 4000, 4));
    while (!several.done()) several.advance();
    return several.curve().back().eval_return;
  };
  CHECK(curve(R"({"population": 8, "same_draws": true})") != curve(R"({"population": 8})"));
}

TEST_CASE("a network that is no number any more is told, not acted on", "[policies]") {
  const double broken[] = {0.0, std::nan(""), 1.0};
  CHECK_THROWS_WITH(masked_argmax(broken, nullptr, 3), Contains("not a number"));
  const std::uint8_t mask[] = {1, 0, 1};
  CHECK(masked_argmax(broken, mask, 3) == 2);  // what is not allowed does not count
  const sim::Node wild = sim::parse_json(R"({"system": "rl", "env": {"policy": "cart_pole"},
    "learner": {"policy": "ppo", "ppo": {"rate": 1e300, "horizon": 16, "network": {"activation": "relu"}}},
    "train": {"steps": 4000, "eval_every": 4000, "eval_episodes": 1}})",
                                         "test");
  CHECK_THAT(fault_of([&] { (void)read_experiment(test_systems(), wild)->run({}); }),
             Contains("the learner 'ppo' diverged near step") && Contains("a smaller rate"));
}

TEST_CASE("play holds a policy against rules on the same runs", "[policies]") {
  Scratch scratch;
  const Decision& routing = kDecisions[0];
  write_policy(scratch.path / "p",
               trained(routing, "evolution", R"({"population": 4, "episodes": 1})", env_params(routing)));
  PlayOptions options{.policy = scratch.path / "p",
                      .assignments = {"workload.limit=80"},
                      .against = {"jsq", "hexgen:alpha=0.5"},
                      .seeds = 2};
  const sim::Node one = play(test_systems(), options);
  options.jobs = 3;
  CHECK(play(test_systems(), options).dump() == one.dump());
  const auto& rows = one.find("rows")->items();
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].find("name")->as_string() == "learned");
  CHECK(rows[2].find("name")->as_string() == "hexgen:alpha=0.5");
  const sim::Node& e2e = *rows[1].find("figures")->find("e2e_s.mean");
  CHECK(e2e.find("count")->as_integer() == 2);
  CHECK(e2e.find("learned_better")->as_integer() <= 2);
  CHECK_THAT(play_text(one), Contains("policies.routing") && Contains("hexgen:alpha=0.5"));
  // The clocks that the environment gives its default config are there when it is played.
  const Decision clock{"serving_clock", "power", ""};
  write_policy(scratch.path / "c", trained(clock, "evolution", R"({"population": 4, "episodes": 1})", "{}"));
  const sim::Node clocked =
      play(test_systems(), {.policy = scratch.path / "c", .assignments = {"workload.limit=50"}, .seeds = 1});
  CHECK(clocked.find("rows")->items()[0].find("figures")->find("e2e_s.mean")->find("count")->as_integer() == 1);
  options.against = {"all"};
  const sim::Node all = play(test_systems(), options);
  CHECK(all.find("rows")->items().size() == 1 + test_systems().registry<policies::RouterRegistry>().names().size() - 2);
  options.against = {"hexgem"};
  CHECK_THAT(fault_of([&] { (void)play(test_systems(), options); }), Contains("unknown") && Contains("hexgen"));
  // A policy of another environment plays its episodes.
  const Decision bandit{"contextual_bandit", "", ""};
  write_policy(scratch.path / "b", trained(bandit, "lin_ucb", "{}", "{}"));
  PlayOptions episodes{.policy = scratch.path / "b"};
  CHECK(play(test_systems(), episodes).find("episodes")->find("return")->is_number());
  episodes.config = kConfig;
  CHECK_THAT(fault_of([&] { (void)play(test_systems(), episodes); }), Contains("takes no decision of a run"));
  episodes.logs = {"seed-1.steps"};
  CHECK_THAT(fault_of([&] { (void)play(test_systems(), episodes); }),
             Contains("--log shows what a policy looks at, and runs"));
}

}  // namespace
}  // namespace orrery::experiments::rl::test_policies
