// Learners: how to act, and how to learn from what came of it.
//
// A learner is asked for the actions of n environments at once and told of each step before it is asked again, like a
// search driver: it is a pure function of its setup and of what it was told. It owns no environment and no clock; its
// random numbers come from its stream, by the number of the call, so that its state is small and a checkpoint exact.
//
// Contract: act() with Act::greedy changes nothing (evaluation does not disturb training); actions pass check_action()
// of the spec. Several agents are learned each on its own unless a learner says otherwise. A spec that a learner cannot
// serve: std::invalid_argument from the factory.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/rl/core/archive.hpp"
#include "experiments/rl/core/env.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments::rl {

/// What n environments show: rows of EnvSpec::observation_size() and mask_size() numbers; no masks unless masked. While
/// a learner is trained, rows of action_size() numbers too of what the spec's rule would do, where there is one.
struct View {
  std::size_t n = 0;
  std::span<const double> observations;
  std::span<const std::uint8_t> masks;
  std::span<const double> advice = {};
};

/// One step of n environments. `after` is what the step led to: of an episode that ended its last observation, and a
/// mask that means nothing.
struct Experience {
  View before;
  std::span<const double> actions;  ///< n * action_size
  std::span<const double> rewards;  ///< n * agents
  std::span<const std::uint8_t> terminated, truncated;
  View after;
};

enum class Act : std::uint8_t { explore, greedy };

class Learner {
 public:
  virtual ~Learner() = default;
  virtual void act(const View& view, Act how, std::span<double> actions) = 0;
  virtual void learn(const Experience& experience) = 0;
  /// All that training goes on from, between learn() and act().
  virtual void state(Archive& archive) = 0;
  /// Of it, what acting greedily needs.
  virtual void policy(Archive& archive) { state(archive); }
  /// Whether it chooses the draws of episodes.
  virtual bool draws() const { return false; }
  /// Then asked of an environment before each of its episodes, after learn(): the number of the draws that the episode
  /// has, the same for every episode with that number.
  virtual std::uint64_t draw(std::size_t /*env*/) { return 0; }
  /// Names and values of what it watches in itself (losses, entropy), as of the last update.
  virtual std::vector<std::pair<std::string, double>> figures() const { return {}; }
};

struct LearnerSetup {
  EnvSpec spec;
  std::size_t envs = 1;    ///< n
  std::int64_t steps = 0;  ///< environment steps in all; what schedules are laid over
  sim::RandomStream random{1, "learner"};
  bool trains = true;   ///< else it only acts, from a policy's file
  bool logged = false;  ///< it learns from steps that others took and is never asked to explore
};

using LearnerRegistry = sim::Registry<Learner, const LearnerSetup&>;

/// Adds every learner of learners/ (register.cpp: one line a learner).
void register_learners(LearnerRegistry& registry);

/// A learner for each agent, each told of its own rows alone ("independent learners"; Tan, ICML 1993); of one agent
/// simply its learner.
using MakeLearner = std::function<std::unique_ptr<Learner>(const LearnerSetup&)>;
std::unique_ptr<Learner> learner_per_agent(const LearnerSetup& setup, const MakeLearner& make);

/// Throws std::invalid_argument where a learner that has to act itself is to learn from logged steps.
void require_own_steps(const LearnerSetup& setup, const char* learner);

/// Throws std::invalid_argument where a learner is to be trained and there is no rule to learn from: neither the
/// environment's nor whoever took logged steps.
void require_rule(const LearnerSetup& setup, const char* learner);

/// Throws std::invalid_argument unless every agent chooses (no box).
void require_choices(const EnvSpec& spec, const char* learner);

}  // namespace orrery::experiments::rl
