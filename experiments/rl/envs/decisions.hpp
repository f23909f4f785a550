// Decisions of a run that a learner can take: what each shows, and the policies that ask.
//
// A policy that asks shows what it sees through a DecisionPort and does what comes back. Behind the port is a training
// (training_port: the run stops until the learner has acted) or a policy that was trained (learned_policies: it acts at
// once). Both see the same numbers, so that what was trained acts alike wherever it is put.
#pragma once

#include <memory>
#include <span>

#include "experiments/rl/core/env.hpp"
#include "experiments/systems/serving/config/config.hpp"
#include "policies/experts/expert_cache.hpp"

namespace orrery::experiments::rl {

/// Where a policy meets who decides. The spans are of the decision under way; ask() comes back with the action.
class DecisionPort {
 public:
  virtual ~DecisionPort() = default;
  /// Before the first decision: what this run shows and takes. Throws sim::ConfigError if who decides cannot.
  virtual void begin(const EnvSpec& spec) = 0;
  virtual std::span<double> observation() = 0;
  virtual std::span<std::uint8_t> mask() = 0;
  /// What the config's own policy would do; nothing where nobody learns from it.
  virtual std::span<double> advice() { return {}; }
  /// Adds to the reward of the step under way.
  virtual void add_reward(double reward) = 0;
  virtual std::span<const double> ask(sim::Time now) = 0;
};
using SharedPort = std::shared_ptr<DecisionPort>;

/// ln(1 + x): counts and tokens on a scale that learners like.
double squeezed(double x);

/// Which replica a request goes to, of so many.
EnvSpec routing_spec(std::int64_t replicas);
/// `rule`: the policy that advises, which is told what is done as if it had done it; null: nobody.
std::unique_ptr<policies::Router> asking_router(SharedPort port, std::unique_ptr<policies::Router> rule = nullptr);

/// Which of several policies makes the next batch.
EnvSpec batching_spec(std::int64_t choices);
std::unique_ptr<policies::Batching> asking_batching(SharedPort port,
                                                    std::vector<policies::BatchingRegistry::Choice> of);
/// Policy blocks as choices; none: sarathi with budgets of 256, 512 and 2048. Throws std::invalid_argument for one
/// alone, sim::ConfigError for faults in them.
std::vector<policies::BatchingRegistry::Choice> batching_choices(const std::vector<sim::Node>& blocks,
                                                                 const policies::BatchingRegistry& registry);

/// Whether a request comes in.
EnvSpec admission_spec();
std::unique_ptr<policies::AdmissionControl> asking_admission(
    SharedPort port, std::unique_ptr<policies::AdmissionControl> rule = nullptr);

/// How many of so many replicas are up; a replica costs `cost` a second.
EnvSpec scaling_spec(std::int64_t replicas);
std::unique_ptr<policies::Scaling> asking_scaling(SharedPort port, double cost);

/// At which of so many clocks a batch goes; a joule costs `joule`.
EnvSpec clock_spec(std::int64_t clocks);
std::unique_ptr<policies::ClockPolicy> asking_clock(SharedPort port, double joule);

/// Which of so many experts makes room.
EnvSpec expert_cache_spec(std::int64_t experts);
/// Every expert that is loaded costs 1. `rule` as above.
std::unique_ptr<policies::ExpertCache> asking_expert_cache(SharedPort port, const policies::ExpertCacheSetup& setup,
                                                           std::unique_ptr<policies::ExpertCache> rule = nullptr);

}  // namespace orrery::experiments::rl
