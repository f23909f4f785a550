// `orrery train`: files, faults, states that trainings go on from.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "experiments/base/experiment.hpp"
#include "experiments/base/run_folder.hpp"
#include "experiments/rl/core/archive.hpp"
#include "tests/rl/train_support.hpp"
#include "tests/systems.hpp"

namespace test_train_cli {

using namespace orrery;
using namespace orrery::experiments;
using rl::test::Scratch;

namespace fs = std::filesystem;

namespace {

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string config(const std::string& run) {
  return R"({"system": "rl", "env": {"policy": "job_shop", "job_shop": {"jobs": 3, "machines": 2}},
    "learner": {"policy": "ppo", "ppo": {"horizon": 8, "network": {"hidden": [8]}}},
    "train": {"steps": 400, "envs": 4, "eval_every": 100, "eval_episodes": 2, "target": -10}, "run": )" +
         run + "}";
}

Outcome run(const std::string& text, const fs::path& folder) {
  fs::create_directories(folder);
  return read_experiment(test_systems(), sim::parse_json(text, "test"))->run({folder, {}});
}

std::vector<std::string> faults_of(const std::string& text) {
  std::vector<std::string> out;
  try {
    read_experiment(test_systems(), sim::parse_json(text, "test"));
  } catch (const sim::ConfigError& error) {
    for (const sim::Fault& fault : error.faults()) out.push_back(fault.text());
  }
  return out;
}

}  // namespace

TEST_CASE("trainings write the same bytes for any number of threads, and from a state in the middle", "[prop]") {
  const Scratch scratch;
  const Outcome one = run(config(R"({"seeds": 3})"), scratch.path / "one");
  const Outcome two = run(config(R"({"seeds": 3, "jobs": 2})"), scratch.path / "two");
  // A training that is stopped by an exception out of its progress, twice, and started again.
  const std::string kept = config(R"({"seeds": 3, "state": ")" + (scratch.path / "state").string() + "\"}");
  fs::create_directories(scratch.path / "three");
  for (int stops = 0; stops < 2; ++stops) {
    int calls = 0;
    const auto stop = [&](const Progress&) {
      if (++calls == 3) throw std::runtime_error("stopped");
    };
    CHECK_THROWS_WITH(
        read_experiment(test_systems(), sim::parse_json(kept, "test"))->run({scratch.path / "three", stop}), "stopped");
  }
  const Outcome three = run(kept, scratch.path / "three");
  CHECK(one.summary.dump() == two.summary.dump());
  CHECK(one.summary.dump() == three.summary.dump());
  for (const char* file : {"curve.csv", "seed-1.ckpt", "seed-2.ckpt", "seed-3.ckpt"}) {
    CAPTURE(file);
    const std::string text = text_of(scratch.path / "one" / file);
    CHECK(text.size() > 100);
    CHECK(text == text_of(scratch.path / "two" / file));
    CHECK(text == text_of(scratch.path / "three" / file));
  }
  CHECK(one.events == 3 * 400);
  CHECK(one.summary.at("steps_to_target.p50")->as_number() == 0);  // any schedule of six operations beats -10
}

TEST_CASE("a state of another training, or one that is not whole, is a fault", "[unit]") {
  const Scratch scratch;
  const std::string state = R"({"state": ")" + scratch.path.string() + "\"}";
  run(config(state), scratch.path / "run");
  std::string other = config(state);
  other.replace(other.find("\"horizon\": 8"), 12, "\"horizon\": 9");
  CHECK_THROWS_WITH(run(other, scratch.path / "other"), Catch::Contains("belongs to another training"));
  const fs::path file = scratch.path / "seed-1.ckpt";
  const std::string text = text_of(file);
  std::ofstream(file, std::ios::binary) << text.substr(0, text.size() - 1);
  CHECK_THROWS_WITH(run(config(state), scratch.path / "run"), Catch::Contains("not whole"));
  std::ofstream(file, std::ios::binary) << "something else";
  CHECK_THROWS_WITH(run(config(state), scratch.path / "run"), Catch::Contains("expected a checkpoint"));
}

TEST_CASE("faults of a training name their place", "[unit]") {
  const auto starts = [](const std::vector<std::string>& faults, const std::string& text) {
    return faults.size() == 1 && faults[0].find(text) == 0;
  };
  CHECK(starts(faults_of(R"({"system": "rl"})"), "test:/env: missing: expected a policy block (known: acrobot"));
  CHECK(starts(faults_of(R"({"system": "rl", "env": {"policy": "cart_pool"}})"), "test:/env/policy: "));
  CHECK(starts(faults_of(R"({"system": "rl", "env": {"policy": "cart_pole", "cart_pole": {"max_step": 3}}})"),
               "test:/env/cart_pole/max_step: "));
  CHECK(starts(faults_of(R"({"system": "rl", "env": {"policy": "cart_pole", "cart_pole": {"continuous": true}},
                             "learner": {"policy": "dqn"}})"),
               "test:/learner: learner dqn makes choices"));
  CHECK(starts(faults_of(R"({"system": "rl", "env": {"policy": "job_shop",
                             "job_shop": {"instance": "ft06", "fresh": true}}})"),
               "test:/env: 'fresh' needs random instances"));
  CHECK(starts(faults_of(R"({"system": "rl", "env": {"policy": "cart_pole"}, "train": {"agents": "split"},
                             "learner": {"ppo": {"rate": 0}}})"),
               "test:/learner/ppo/rate: "));
  CHECK(starts(faults_of(R"({"system": "rl", "env": {"policy": "matrix_game"}, "train": {"agents": "split"}})"),
               "test:/env: only the choices of a single agent can be split"));
}

}  // namespace test_train_cli
