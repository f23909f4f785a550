// Trainings in a line.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "experiments/rl/policy_file.hpp"
#include "experiments/rl/training.hpp"
#include "tests/rl/support.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::rl::test {

/// A folder of the test's own, gone afterwards.
struct Scratch {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("orrery-train-" + std::to_string(std::rand()));
  Scratch() { std::filesystem::create_directories(path); }
  ~Scratch() { std::filesystem::remove_all(path); }
};

inline LearnerRegistry::Factory learner_factory(const std::string& name, const std::string& params) {
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  auto choice = test_systems().registry<LearnerRegistry>().prepare(name, &node, kHere, faults);
  faults.throw_if_any();
  return choice.make;
}

/// Four evaluations, of 20 episodes each.
inline TrainingPlan plan(const std::string& env, const std::string& env_params, const std::string& learner,
                         const std::string& learner_params, std::int64_t steps, std::size_t envs) {
  return {.make_env = env_factory(env, env_params),
          .make_learner = learner_factory(learner, learner_params),
          .steps = steps,
          .eval_every = steps / 4,
          .eval_episodes = 20,
          .eval_steps = 1000,
          .envs = envs};
}

/// A short training, and the policy that it leaves.
inline PolicyFile trained(const std::string& env, const std::string& env_params, const std::string& learner,
                          const std::string& learner_params, std::int64_t steps) {
  TrainingPlan how_long = plan(env, env_params, learner, learner_params, steps, 2);
  how_long.eval_episodes = 1;
  sim::Faults faults;
  const sim::Node env_node = sim::parse_json(env_params, "test"),
                  learner_node = sim::parse_json(learner_params, "test");
  const auto where = test_systems().registry<EnvRegistry>().prepare(env, &env_node, kHere, faults);
  const auto how = test_systems().registry<LearnerRegistry>().prepare(learner, &learner_node, kHere, faults);
  faults.throw_if_any();
  Training training(how_long);
  while (!training.done()) training.advance();
  return training.policy(where, how);
}

/// The first fault that `act` throws; empty if it throws none.
inline std::string fault_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const sim::ConfigError& error) {
    return error.faults().front().text();
  }
  return {};
}

inline std::string bytes_of(Training& training) {
  Archive archive;
  training.state(archive);
  return archive.bytes();
}

}  // namespace orrery::experiments::rl::test
