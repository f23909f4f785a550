// Trainings in a line.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

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

inline std::string bytes_of(Training& training) {
  Archive archive;
  training.state(archive);
  return archive.bytes();
}

}  // namespace orrery::experiments::rl::test
