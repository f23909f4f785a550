// Thompson sampling with linear rewards: plays the best arm of weights drawn from what is believed of them, a normal of
// mean A^-1 b and covariance v^2 A^-1. Source: Agrawal and Goyal, "Thompson sampling for contextual bandits with linear
// payoffs", ICML 2013 (here with weights of their own for each arm). The promise theta . x of drawn weights is itself a
// normal of mean A^-1 b . x and variance v^2 x^T A^-1 x, and is drawn as such.
#include <cmath>

#include "experiments/rl/core/linear_bandit.hpp"

namespace orrery::experiments::rl {
namespace {

struct ThompsonParams {
  double deviation = 0.5, ridge = 1;

  static constexpr auto fields() {
    using P = ThompsonParams;
    return sim::FieldTable{
        sim::field("deviation", &P::deviation, sim::Unit::none, sim::at_least(0), "v: how wide beliefs are drawn."),
        sim::field("ridge", &P::ridge, sim::Unit::none, sim::positive(),
                   "Ridge weight of the prior that rewards are 0."),
    };
  }
};

}  // namespace

void add_thompson_learner(LearnerRegistry& registry) {
  registry.add<ThompsonParams>(
      "thompson", "Contextual bandit: chooses the best arm for weights drawn from the posterior (Thompson sampling).",
      [](const ThompsonParams& params, const LearnerSetup& setup) {
        return learner_per_agent(setup, [&params](const LearnerSetup& own) {
          const auto score = [v = params.deviation](const LinearArm& arm, const VectorXd& x, Act how,
                                                    sim::RandomStream& random) {
            const double mean = arm.theta().dot(x);
            if (how == Act::greedy) return mean;
            return mean + v * std::sqrt(x.dot(arm.inverse * x)) * random.normal();
          };
          return std::make_unique<LinearBandit<decltype(score)>>(own, params.ridge, score);
        });
      });
}

}  // namespace orrery::experiments::rl
