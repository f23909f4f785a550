#include "experiments/rl/core/learner.hpp"

namespace orrery::experiments::rl {

// One line a learner: each is declared and called here, and defined in its own file.
// clang-format off
void register_learners(LearnerRegistry& registry) {
  void add_cloning_learner(LearnerRegistry&); add_cloning_learner(registry);
  void add_dagger_learner(LearnerRegistry&); add_dagger_learner(registry);
  void add_dqn_learner(LearnerRegistry&); add_dqn_learner(registry);
  void add_evolution_learner(LearnerRegistry&); add_evolution_learner(registry);
  void add_lin_ucb_learner(LearnerRegistry&); add_lin_ucb_learner(registry);
  void add_muzero_learner(LearnerRegistry&); add_muzero_learner(registry);
  void add_ppo_learner(LearnerRegistry&); add_ppo_learner(registry);
  void add_reinforce_learner(LearnerRegistry&); add_reinforce_learner(registry);
  void add_sac_learner(LearnerRegistry&); add_sac_learner(registry);
  void add_thompson_learner(LearnerRegistry&); add_thompson_learner(registry);
}
// clang-format on

}  // namespace orrery::experiments::rl
