// LinUCB with arms apart: plays the arm of the highest upper bound theta . x + alpha sqrt(x^T A^-1 x). Source: Li, Chu,
// Langford and Schapire, "A contextual-bandit approach to personalized news article recommendation", WWW 2010,
// algorithm 1.
#include <cmath>

#include "experiments/rl/core/linear_bandit.hpp"

namespace orrery::experiments::rl {
namespace {

struct LinUcbParams {
  double alpha = 1, ridge = 1;

  static constexpr auto fields() {
    using P = LinUcbParams;
    return sim::FieldTable{
        sim::field("alpha", &P::alpha, sim::Unit::none, sim::at_least(0),
                   "Width of the upper confidence bound, in standard deviations."),
        sim::field("ridge", &P::ridge, sim::Unit::none, sim::positive(),
                   "Ridge weight of the prior that rewards are 0."),
    };
  }
};

}  // namespace

void add_lin_ucb_learner(LearnerRegistry& registry) {
  registry.add<LinUcbParams>("lin_ucb", "Contextual bandit: chooses the arm with the highest upper confidence bound.",
                             [](const LinUcbParams& params, const LearnerSetup& setup) {
                               return learner_per_agent(setup, [&params](const LearnerSetup& own) {
                                 const auto score = [alpha = params.alpha](const LinearArm& arm, const VectorXd& x,
                                                                           Act how, sim::RandomStream&) {
                                   const double mean = arm.theta().dot(x);
                                   if (how == Act::greedy) return mean;
                                   return mean + alpha * std::sqrt(x.dot(arm.inverse * x));
                                 };
                                 return std::make_unique<LinearBandit<decltype(score)>>(own, params.ridge, score);
                               });
                             });
}

}  // namespace orrery::experiments::rl
