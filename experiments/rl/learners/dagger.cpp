// DAgger (Ross, Gordon and Bagnell, AISTATS 2011): imitates the environment's rule where the policy itself leads, the
// rule's advice being remembered everywhere. What it does stands in experiments/rl/core/imitation.hpp.
#include "experiments/rl/core/imitation.hpp"

namespace orrery::experiments::rl {
namespace {

struct DaggerParams : ImitationParams {
  double rule_share = 0.5;
  static constexpr auto fields() {
    using P = DaggerParams;
    return sim::joined(sim::inherited<P>(ImitationParams::fields()),
                       sim::FieldTable{sim::field(
                           "rule_share", &P::rule_share, sim::Unit::ratio, sim::between(0, 1),
                           "Share of the training over which the probability that the rule acts falls from 1 to 0.")});
  }
};

}  // namespace

void add_dagger_learner(LearnerRegistry& registry) {
  registry.add<DaggerParams>("dagger",
                             "DAgger: imitates the environment's rule in the states that the policy itself reaches.",
                             [](const DaggerParams& p, const LearnerSetup& setup) {
                               require_own_steps(setup, "dagger");
                               require_rule(setup, "dagger");
                               require_choices(setup.spec, "dagger");
                               return make_imitation(p, p.rule_share, setup);
                             });
}

}  // namespace orrery::experiments::rl
