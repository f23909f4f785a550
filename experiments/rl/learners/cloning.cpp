// Behaviour cloning (Pomerleau, NIPS 1988): the environment's rule acts, and a policy learns to say the same. What it
// does stands in experiments/rl/core/imitation.hpp.
#include <limits>

#include "experiments/rl/core/imitation.hpp"

namespace orrery::experiments::rl {
namespace {

struct CloningParams : ImitationParams {
  static constexpr auto fields() { return sim::inherited<CloningParams>(ImitationParams::fields()); }
};

}  // namespace

void add_cloning_learner(LearnerRegistry& registry) {
  registry.add<CloningParams>("cloning", "Behaviour cloning: imitates the environment's rule while that acts.",
                              [](const CloningParams& p, const LearnerSetup& setup) {
                                require_rule(setup, "cloning");
                                require_choices(setup.spec, "cloning");
                                return make_imitation(p, std::numeric_limits<double>::infinity(), setup);
                              });
}

}  // namespace orrery::experiments::rl
