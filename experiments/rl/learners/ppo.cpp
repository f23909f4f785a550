// Proximal policy optimisation (Schulman, Wolski, Dhariwal, Radford and Klimov, arXiv 1707.06347, 2017), for one agent
// or for several that learn on their own ("ppo"), and with a critic that all of them share ("mappo": Yu et al., NeurIPS
// 2022). What they do stands in experiments/rl/core/on_policy.hpp. Defaults as in the paper's section 6 where it names
// them.
#include "experiments/rl/core/on_policy.hpp"

namespace orrery::experiments::rl {
namespace {

struct PpoParams {
  NetworkParams network;
  std::int64_t horizon = 128, epochs = 4, minibatches = 4;
  double gamma = 0.99, lambda = 0.95, clip = 0.2, rate = 3e-4, critic_rate = 1e-3, entropy = 0.01;
  double most_gradient = 0.5;
  bool anneal = true, normalise = true;

  static constexpr auto fields() {
    using P = PpoParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("network", &P::network, "Network of actors and critics."),
        sim::field("horizon", &P::horizon, Unit::count, sim::between(1, 1e6), "Steps of each environment per round."),
        sim::field("epochs", &P::epochs, Unit::count, sim::between(1, 1000), "Passes over the steps of a round."),
        sim::field("minibatches", &P::minibatches, Unit::count, sim::between(1, 1e6),
                   "Mini-batches that a round is divided into per pass."),
        sim::field("gamma", &P::gamma, Unit::ratio, sim::between(0, 1), "Discount factor per step."),
        sim::field("lambda", &P::lambda, Unit::ratio, sim::between(0, 1),
                   "Decay factor of generalised advantage estimation."),
        sim::field("clip", &P::clip, Unit::ratio, sim::at_least(0),
                   "Clip range of the probability ratio; 0: no clipping."),
        sim::field("rate", &P::rate, Unit::none, sim::positive(), "Step size of actors."),
        sim::field("critic_rate", &P::critic_rate, Unit::none, sim::positive(), "Step size of critics."),
        sim::field("anneal", &P::anneal, "Whether step sizes fall to 0 over the training."),
        sim::field("entropy", &P::entropy, Unit::none, sim::at_least(0), "Weight of the entropy bonus."),
        sim::field("most_gradient", &P::most_gradient, Unit::none, sim::at_least(0),
                   "Norm that gradients are clipped to; 0: no clipping."),
        sim::field("normalise", &P::normalise, "Whether observations are scaled to mean 0 and variance 1."),
    };
  }
};

std::unique_ptr<Learner> make_ppo(const PpoParams& p, const LearnerSetup& setup, bool shared_critic) {
  return make_on_policy({.network = p.network,
                         .horizon = p.horizon,
                         .epochs = p.epochs,
                         .minibatches = p.minibatches,
                         .gamma = p.gamma,
                         .lambda = p.lambda,
                         .clip = p.clip,
                         .rate = p.rate,
                         .critic_rate = p.critic_rate,
                         .anneal = p.anneal,
                         .entropy = p.entropy,
                         .most_gradient = p.most_gradient,
                         .normalise = p.normalise,
                         .shared_critic = shared_critic},
                        setup);
}

}  // namespace

void add_ppo_learner(LearnerRegistry& registry) {
  registry.add<PpoParams>("ppo", "Proximal policy optimisation; with several agents, each learns on its own.",
                          [](const PpoParams& params, const LearnerSetup& setup) {
                            require_own_steps(setup, "ppo");
                            return make_ppo(params, setup, false);
                          });
  registry.add<PpoParams>("mappo", "PPO for several agents with one critic that sees what all agents see.",
                          [](const PpoParams& params, const LearnerSetup& setup) {
                            require_own_steps(setup, "mappo");
                            return make_ppo(params, setup, true);
                          });
}

}  // namespace orrery::experiments::rl
