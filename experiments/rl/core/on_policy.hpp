// Learners that improve a policy on the steps it has just taken: PPO, REINFORCE with baseline, MAPPO.
//
// A round is `horizon` steps of every environment. Then, with V of the critic before the round's updates, advantages by
// generalised advantage estimation (Schulman et al., ICLR 2016)
//   delta_t = r_t + gamma V(s_t+1) - V(s_t),   A_t = delta_t + gamma lambda A_t+1 (0 past an episode's end)
// where V(s_t+1) is 0 if the episode terminated and V of its last observation if it was truncated; returns are A + V.
// Actors climb the clipped objective min(q A, clip(q, 1 - c, 1 + c) A) + entropy bonus, with q the ratio of the
// action's probability to that at which it was taken (Schulman et al., arXiv 1707.06347, 2017); critics descend the
// squared error to the returns, both in units of the deviation of all returns so far around their mean, so that no step
// size depends on the scale of rewards. With one pass over a whole round, no clip and lambda 1 this is REINFORCE with
// baseline.
//
// Each agent has an actor of its own. Critics: one an agent that sees what the agent sees (independent learners), or
// one for all that sees everything (the shared critic of Yu et al., "The surprising effectiveness of PPO in cooperative
// multi-agent games", NeurIPS 2022); actors never see more than their own rows.
#pragma once

#include "experiments/rl/core/action_head.hpp"
#include "experiments/rl/core/learner.hpp"
#include "experiments/rl/core/reading.hpp"

namespace orrery::experiments::rl {

struct OnPolicySettings {
  NetworkParams network;
  std::int64_t horizon = 128, epochs = 4, minibatches = 4;
  double gamma = 0.99, lambda = 0.95;
  double clip = 0.2;  ///< 0: none
  double rate = 3e-4, critic_rate = 1e-3;
  bool anneal = true;  ///< rates fall to 0 over the steps of the setup
  double entropy = 0.01;
  double most_gradient = 0.5;
  bool normalise = true;             ///< observations
  bool normalise_advantages = true;  ///< of a minibatch
  bool shared_critic = false;
};

/// The learner of these settings.
std::unique_ptr<Learner> make_on_policy(const OnPolicySettings& settings, const LearnerSetup& setup);

/// Advantages of one environment and agent: rows of T rewards, values, the values of what each step led to (0 where it
/// terminated), and whether the episode ended there.
std::vector<double> advantages(std::span<const double> rewards, std::span<const double> values,
                               std::span<const double> next_values, std::span<const std::uint8_t> ended, double gamma,
                               double lambda);

}  // namespace orrery::experiments::rl
