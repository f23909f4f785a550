// A trained policy as a file: what `orrery train` leaves beside its checkpoints, and what `learned` policies load.
//
// It holds what acting greedily needs and what it was trained on: the environment with its parameters, the learner with
// its own, and the spaces. A policy acts wherever a run shows the same entries and takes the same choices; one that
// judges each choice by one rule (AgentSpec::per_choice) acts for any number of them. The same file and run give the
// same decisions on any x86-64 host (network.hpp, "Bits").
#pragma once

#include <filesystem>

#include "experiments/rl/core/learner.hpp"

namespace orrery::experiments::rl {

struct PolicyFile {
  std::filesystem::path path;  ///< where it was read from
  std::string env;
  sim::Node env_params;
  sim::Node learner;       ///< its policy block
  bool regrouped = false;  ///< whether it acts for other agents than the environment has (train.agents)
  EnvSpec spec;
  std::int64_t seed = 0, steps = 0;  ///< of the training
  double eval_return = 0;            ///< of its last evaluation
  std::string bytes;                 ///< Learner::policy
};

/// Spaces as a document, and back; bounds of observations are left out.
sim::Node written_spec(const EnvSpec& spec);
/// Throws std::runtime_error for a document that is none.
EnvSpec read_spec(const sim::Node& node);
/// In what the spaces of a training differ from those of here; empty where they do not. The number of choices is left
/// out where each is judged by one rule.
std::string spaces_differ(const EnvSpec& trained, const EnvSpec& here);

void write_policy(const std::filesystem::path& path, const PolicyFile& policy);
/// Throws sim::ConfigError for a file that cannot be read, is no policy or not whole.
PolicyFile read_policy(const std::filesystem::path& path);

/// A learner that acts as the policy does where a run has these spaces. Throws sim::ConfigError, at the file, where
/// they are not those that it was trained on.
std::unique_ptr<Learner> learner_of(const PolicyFile& policy, const EnvSpec& spec, const LearnerRegistry& learners);

}  // namespace orrery::experiments::rl
