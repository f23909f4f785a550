// Logged steps: what a file of them keeps, who learns from them, and what is refused.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/rl/train_support.hpp"

namespace test_step_log {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::rl;
using rl::test::Scratch;

namespace {

std::string faults(const std::string& config) {
  try {
    (void)read_experiment(test_systems(), sim::parse_json(config, "test"));
  } catch (const sim::ConfigError& error) {
    return error.what();
  }
  return "none";
}

std::string config(const std::string& env, const std::string& learner, const std::string& train, int seeds = 1) {
  return R"({"system": "rl", "env": )" + env + R"(, "learner": )" + learner + R"(, "train": )" + train +
         R"(, "run": {"seeds": )" + std::to_string(seeds) + "}}";
}

Outcome run(const std::string& text, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  return read_experiment(test_systems(), sim::parse_json(text, "test"))->run({folder, {}});
}

const std::string kBandit = R"({"policy": "contextual_bandit", "contextual_bandit": {"arms": 3, "noise": 0}})";

}  // namespace

TEST_CASE("a log gives back the steps of its training, row by row", "[unit]") {
  const Scratch scratch;
  // Lin-UCB in two environments: every step ends an episode, rewards are linear in the context.
  run(config(kBandit, R"({"policy": "lin_ucb"})", R"({"steps": 100, "envs": 2, "log": 51, "eval_episodes": 1})"),
      scratch.path / "run");
  const auto env = rl::test::make_env("contextual_bandit", R"({"arms": 3, "noise": 0})");
  const StepLog log = read_step_logs({(scratch.path / "run/seed-1.steps").string()}, env->spec());
  REQUIRE(log.size() == 51);  // the first of them, cut in the middle of a step of both environments
  const std::size_t width = env->spec().observation_size();
  const Experience all = log.rows(0, 51);
  TimeStep now;
  // The environment's episodes are functions of their seeds: environment i plays episode_seed(env_seed(seed, i), k).
  for (std::uint64_t k = 0; k < 51; ++k) {
    env->reset(episode_seed(env_seed(env_seed(1, 0), k % 2), k / 2), now);
    CHECK(std::equal(now.observation.begin(), now.observation.end(),
                     all.before.observations.begin() + static_cast<std::ptrdiff_t>(k * width)));
    env->step(all.actions.subspan(k, 1), now);
    CHECK(all.rewards[k] == now.rewards[0]);
    CHECK(all.terminated[k] == 1);
    CHECK(all.before.advice[k] == all.actions[k]);  // who learns to imitate a log imitates who took its steps
  }
  const Experience some = log.rows(7, 3);
  CHECK(some.before.n == 3);
  CHECK(some.rewards[2] == all.rewards[9]);
}

TEST_CASE("logs of several trainings are one, in order", "[unit]") {
  const Scratch scratch;
  run(config(kBandit, R"({"policy": "lin_ucb"})", R"({"steps": 40, "envs": 2, "log": 10, "eval_episodes": 1})", 2),
      scratch.path / "run");
  const auto env = rl::test::make_env("contextual_bandit", R"({"arms": 3, "noise": 0})");
  const std::string one = (scratch.path / "run/seed-1.steps").string(),
                    two = (scratch.path / "run/seed-2.steps").string();
  const StepLog first = read_step_logs({one}, env->spec()), second = read_step_logs({two}, env->spec());
  const StepLog both = read_step_logs({one, two}, env->spec());
  REQUIRE(both.size() == 20);
  for (std::size_t i = 0; i < 10; ++i) {
    CHECK(both.rows(i, 1).rewards[0] == first.rows(i, 1).rewards[0]);
    CHECK(both.rows(10 + i, 1).rewards[0] == second.rows(i, 1).rewards[0]);
  }
}

TEST_CASE("from the steps of somebody who draws arms by chance the best arms are learned", "[unit]") {
  const Scratch scratch;
  // Every choice by chance: `last_random` 1. Its own regret is what the arms lie apart.
  run(config(kBandit, R"({"policy": "dqn", "dqn": {"last_random": 1, "begin": 100000}})",
             R"({"steps": 2000, "log": 2000, "eval_episodes": 1})"),
      scratch.path / "run");
  const std::string logs = R"("from_logs": [")" + (scratch.path / "run/seed-1.steps").string() + R"("])";
  const auto regret = [&](const std::string& learner, const std::string& steps) {
    const Outcome outcome =
        run(config(kBandit, learner, R"({"steps": )" + steps + R"(, "eval_episodes": 500, )" + logs + "}"),
            scratch.path / "learned");
    return std::pair(outcome.summary.at("untrained_return.p50")->as_number(),
                     outcome.summary.at("info.regret.p50")->as_number());
  };
  // Rewards are linear in the context: ordinary least squares has them exactly.
  CHECK(regret(R"({"policy": "lin_ucb"})", "2000").second < 0.01);
  CHECK(regret(R"({"policy": "thompson"})", "2000").second < 0.01);
  CHECK(regret(R"({"policy": "dqn", "dqn": {"gamma": 0}})", "8000").second < 0.05);
  CHECK(regret(R"({"policy": "sac", "sac": {"gamma": 0}})", "8000").second < 0.1);
  // Who imitates chance learns nothing: three arms whose rewards spread by some 0.6 leave a regret of that size.
  CHECK(regret(R"({"policy": "cloning"})", "4000").second > 0.2);
}

TEST_CASE("what nobody did is valued below what was done, the more so the weight", "[unit]") {
  const Scratch scratch;
  // Lin-UCB's later steps are nearly all best arms: the others are rarely seen. Imitating them is right, and so is
  // the conservative value; the policy then agrees with who took the steps.
  run(config(kBandit, R"({"policy": "lin_ucb"})", R"({"steps": 3000, "log": 3000, "eval_episodes": 1})"),
      scratch.path / "run");
  const std::string logs = R"("from_logs": [")" + (scratch.path / "run/seed-1.steps").string() + R"("])";
  const auto loss = [&](const char* weight) {
    const Outcome outcome =
        run(config(kBandit, R"({"policy": "dqn", "dqn": {"gamma": 0, "conservative": )" + std::string(weight) + "}}",
                   R"({"steps": 4000, "eval_episodes": 300, )" + logs + "}"),
            scratch.path / "learned");
    return outcome.summary.at("info.regret.p50")->as_number();
  };
  CHECK(loss("1") < 0.05);
  CHECK(loss("0") < 0.2);
}

TEST_CASE("learning from a log goes on where it was stopped", "[unit]") {
  const Scratch scratch;
  run(config(kBandit, R"({"policy": "lin_ucb"})", R"({"steps": 300, "log": 300, "eval_episodes": 1})"),
      scratch.path / "run");
  const auto env = rl::test::make_env("contextual_bandit", R"({"arms": 3, "noise": 0})");
  const auto log =
      std::make_shared<const StepLog>(read_step_logs({(scratch.path / "run/seed-1.steps").string()}, env->spec()));
  // More than twice around, in steps of 8 that do not divide 300.
  TrainingPlan plan =
      rl::test::plan("contextual_bandit", R"({"arms": 3, "noise": 0})", "dqn", R"({"begin": 10})", 700, 8);
  plan.from = log;
  Training whole(plan), first(plan), second(plan);
  while (!whole.done()) whole.advance();
  for (int i = 0; i < 3; ++i) first.advance();
  Archive written;
  first.state(written);
  Archive read(written.bytes());
  second.state(read);
  while (!second.done()) second.advance();
  CHECK(rl::test::bytes_of(whole) == rl::test::bytes_of(second));
}

TEST_CASE("faults of logged steps", "[unit]") {
  const Scratch scratch;
  run(config(kBandit, R"({"policy": "lin_ucb"})", R"({"steps": 40, "log": 40, "eval_episodes": 1})"),
      scratch.path / "run");
  const std::string file = (scratch.path / "run/seed-1.steps").string();
  const auto from = [&](const std::string& env, const std::string& learner, const std::string& path) {
    return faults(config(env, learner, R"({"steps": 100, "from_logs": [")" + path + R"("]})"));
  };
  const std::string dqn = R"({"policy": "dqn"})", cart = R"({"policy": "cart_pole"})";
  for (const char* learner : {"ppo", "mappo", "reinforce", "evolution", "muzero", "dagger"})
    CHECK_THAT(from(kBandit, R"({"policy": ")" + std::string(learner) + "\"}", file),
               Catch::Contains("/learner: learner " + std::string(learner) + " learns from steps of its own"));
  CHECK_THAT(from(cart, dqn, file),
             Catch::Contains(file + ": the steps were logged in other spaces: it reads 'x0' where"));
  CHECK_THAT(from(R"({"policy": "contextual_bandit", "contextual_bandit": {"arms": 4}})", dqn, file),
             Catch::Contains("other spaces: it has 3 choices, this run 4"));
  CHECK_THAT(from(kBandit, dqn, (scratch.path / "nothing").string()),
             Catch::Contains("expected steps that a training has logged"));
  CHECK_THAT(from(kBandit, dqn, (scratch.path / "run/seed-1.ckpt").string()),
             Catch::Contains("expected steps that a training has"));
  CHECK_THAT(faults(config(kBandit, dqn, R"({"steps": 100, "log": 10, "from_logs": [")" + file + R"("]})")),
             Catch::Contains("/train: log: steps that are learned from logs are not logged again"));
  // Four numbers before and after, an action and a reward: 10 of 8 bytes and two flags, 82. 2^30 / 82 = 13094412.9.
  CHECK_THAT(faults(config(kBandit, dqn, R"({"steps": 100, "log": 20000000})")),
             Catch::Contains("log: 20000000 steps of 82 bytes are more than 1 GiB; expected 13094412 steps at most"));
  // A state of another log's training is that of another training.
  const std::string state = (scratch.path / "state").string();
  const auto kept = [&](const std::string& log, const char* folder) {
    std::string text = config(kBandit, dqn, R"({"steps": 40, "eval_episodes": 1, "from_logs": [")" + log + R"("]})");
    text.replace(text.find(R"("seeds": 1)"), 10, R"("seeds": 1, "state": ")" + state + "\"");
    return run(text, scratch.path / folder);
  };
  kept(file, "one");
  run(config(kBandit, R"({"policy": "thompson"})", R"({"steps": 40, "log": 40, "eval_episodes": 1})"),
      scratch.path / "two");
  CHECK_THROWS_WITH(kept((scratch.path / "two/seed-1.steps").string(), "three"),
                    Catch::Contains("belongs to another training"));
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const std::string cut = (scratch.path / "cut.steps").string();
  std::ofstream(cut, std::ios::binary) << text.substr(0, text.size() - 5);
  CHECK_THAT(from(kBandit, dqn, cut), Catch::Contains(cut + ": the checkpoint is not whole"));
}

}  // namespace test_step_log
