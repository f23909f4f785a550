// Environments: what a learner acts in, step by step.
//
// An Env is an episodic decision process. It says in its EnvSpec what it shows (named numbers with bounds) and what it
// takes (choices, several choices, or numbers in a box), for one agent or for several that act at once. All of it is
// flat: the agents' observations stand one after the other in one row of numbers, so do their masks and their actions
// (a choice is its index as a double). An environment whose engine stops at decision points steps from one to the next.
//
// Contract
// - reset(seed, out) begins an episode, step(action, out) takes it further; both fill all of `out`. An episode is a
//   pure function of the environment's parameters, the seed and the actions: no clock, no draws but from streams of
//   that seed. reset() may be called at any time; step() only after it, and not after an episode's end.
// - `terminated`: the process came to an end of its own (its value from here is 0). `truncated`: it was cut off (by
//   a limit on steps), and its value from here is that of the last observation. Both may hold.
// - Observations are finite and within the bounds of their entries (which may be infinite). A mask, where the spec says
//   that there is one, has a 1 for each choice that is allowed now and at least one of them in each part until the end.
// - Actions that come in have passed check_action(): VectorEnv, bindings and tests call it; environments need not.
// - Faults of parameters that their ranges cannot say: std::invalid_argument from the factory; it becomes a fault at
//   the environment's block.
// - Threads: one Env is used by one thread at a time; different ones by different threads at once.
//
// To Gymnasium (1.x): reset(seed=) and the five-tuple of step(), where the reward of one agent (or a shared reward) is
// a number; choices are Discrete or MultiDiscrete, a box is Box(float64), an observation is a Box of the entries; masks
// are info["action_mask"], the named figures are members of info. Several agents are PettingZoo's parallel API.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "sim/base/registry.hpp"

namespace orrery::experiments::rl {

/// One named number of an observation; the bounds belong to it and may be infinite.
struct ObservationEntry {
  std::string name;
  double low = 0, high = 1;
};

enum class ActionKind : std::uint8_t {
  discrete,        ///< one of n choices
  multi_discrete,  ///< one of n_i choices for each part i
  box              ///< a number in [low_i, high_i] for each part i
};

struct ActionSpace {
  ActionKind kind = ActionKind::discrete;
  std::vector<std::int64_t> choices;  ///< of each part; empty for a box
  std::vector<double> low, high;      ///< of each part of a box, finite
  std::vector<std::string> names;     ///< of the parts; may be empty

  static ActionSpace discrete(std::int64_t n) { return {.choices = {n}}; }
  static ActionSpace multi_discrete(std::vector<std::int64_t> n, std::vector<std::string> names = {}) {
    return {.kind = ActionKind::multi_discrete, .choices = std::move(n), .names = std::move(names)};
  }
  static ActionSpace box(std::vector<double> low, std::vector<double> high, std::vector<std::string> names = {}) {
    return {.kind = ActionKind::box, .low = std::move(low), .high = std::move(high), .names = std::move(names)};
  }
  /// Numbers in an action.
  std::size_t parts() const { return kind == ActionKind::box ? low.size() : choices.size(); }
  /// Bytes of a mask: the choices of all parts, part after part; 0 for a box.
  std::size_t all_choices() const;
};

struct AgentSpec {
  std::string name;
  std::vector<ObservationEntry> observation;
  ActionSpace action;
  /// Entries that describe each choice of a discrete action: those of the first choice, of the second and so on, then
  /// what is the same for all. So a learner can judge every choice by the same rule, whatever their number. 0: no such
  /// order.
  std::size_t per_choice = 0;
};

/// What an environment shows and takes; the same for its whole life.
struct EnvSpec {
  std::vector<AgentSpec> agents;  ///< at least one
  bool masked = false;            ///< whether steps carry a mask
  bool shared_reward = true;      ///< whether all agents get the same reward
  std::vector<std::string> info;  ///< names of TimeStep::info
  std::string rule;               ///< whose TimeStep::advice there is; empty: nobody's

  /// Lengths of the flat rows of all agents together.
  std::size_t observation_size() const;
  std::size_t action_size() const;
  std::size_t mask_size() const;
};

/// What reset() and step() give back. Vectors keep their memory from step to step.
struct TimeStep {
  std::vector<double> observation;
  std::vector<double> rewards;     ///< one an agent; zeros after reset()
  std::vector<std::uint8_t> mask;  ///< 1: allowed; empty unless the spec says `masked`
  std::vector<double> advice;      ///< the action that the spec's rule would take now; empty without one
  bool terminated = false, truncated = false;
  std::vector<double> info;  ///< figures in the order of the spec's names; NaN where there is none now

  bool ended() const { return terminated || truncated; }
};

class Env {
 public:
  virtual ~Env() = default;
  virtual const EnvSpec& spec() const = 0;
  virtual void reset(std::uint64_t seed, TimeStep& out) = 0;
  virtual void step(std::span<const double> action, TimeStep& out) = 0;
};

/// Throws std::invalid_argument that names agent and part if an action has the wrong length, is no index of a choice,
/// is forbidden by the mask (which may be empty), or leaves its box.
void check_action(const EnvSpec& spec, std::span<const std::uint8_t> mask, std::span<const double> action);

/// Throws std::logic_error if a time step does not fit the spec: lengths, bounds, a part without an allowed choice. For
/// tests of environments.
void check_step(const EnvSpec& spec, const TimeStep& step);

/// Sets a time step up for a spec: zeros, all choices allowed, NaN figures.
void clear_step(const EnvSpec& spec, TimeStep& out);

/// Environments that run experiments read them with the systems that there are.
using EnvRegistry = sim::Registry<Env, const Systems&>;
/// A way to make as many equal environments as wanted; callable by several threads at once.
using EnvFactory = std::function<std::unique_ptr<Env>()>;
EnvFactory env_factory(const EnvRegistry::Choice& choice, const Systems& systems);

/// Adds every environment that ships (envs/register.cpp: one line an environment).
void register_envs(EnvRegistry& registry);

}  // namespace orrery::experiments::rl
