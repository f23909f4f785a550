// REINFORCE with a learned baseline (Williams, Machine Learning 8, 1992): one step up the likelihood of a round's
// actions, weighted by their returns less what was expected. Rounds are of fixed length; an episode that a round cuts
// is continued by the baseline's value. What it does stands in experiments/rl/core/on_policy.hpp.
#include "experiments/rl/core/on_policy.hpp"

namespace orrery::experiments::rl {
namespace {

struct ReinforceParams {
  NetworkParams network;
  std::int64_t horizon = 128;
  double gamma = 0.99, rate = 3e-3, critic_rate = 3e-3, entropy = 0.01;
  bool anneal = true, normalise = true;

  static constexpr auto fields() {
    using P = ReinforceParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("network", &P::network, "Network of the policy and of the baseline."),
        sim::field("horizon", &P::horizon, Unit::count, sim::between(1, 1e6), "Steps of each environment per round."),
        sim::field("gamma", &P::gamma, Unit::ratio, sim::between(0, 1), "Discount factor per step."),
        sim::field("rate", &P::rate, Unit::none, sim::positive(), "Step size of the policy."),
        sim::field("critic_rate", &P::critic_rate, Unit::none, sim::positive(), "Step size of the baseline."),
        sim::field("anneal", &P::anneal, "Whether step sizes fall to 0 over the training."),
        sim::field("entropy", &P::entropy, Unit::none, sim::at_least(0), "Weight of the entropy bonus."),
        sim::field("normalise", &P::normalise, "Whether observations are scaled to mean 0 and variance 1."),
    };
  }
};

}  // namespace

void add_reinforce_learner(LearnerRegistry& registry) {
  registry.add<ReinforceParams>("reinforce", "Policy gradient with a learned baseline.",
                                [](const ReinforceParams& p, const LearnerSetup& setup) {
                                  require_own_steps(setup, "reinforce");
                                  return make_on_policy({.network = p.network,
                                                         .horizon = p.horizon,
                                                         .epochs = 1,
                                                         .minibatches = 1,
                                                         .gamma = p.gamma,
                                                         .lambda = 1,
                                                         .clip = 0,
                                                         .rate = p.rate,
                                                         .critic_rate = p.critic_rate,
                                                         .anneal = p.anneal,
                                                         .entropy = p.entropy,
                                                         .normalise = p.normalise},
                                                        setup);
                                });
}

}  // namespace orrery::experiments::rl
