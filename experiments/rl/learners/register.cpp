#include "experiments/rl/learner.hpp"

namespace orrery::experiments::rl {

// One line a learner: each is declared and called here, and defined in its own file.
// clang-format off
void register_learners(LearnerRegistry& registry) {
  void add_ppo_learner(LearnerRegistry&); add_ppo_learner(registry);
  void add_reinforce_learner(LearnerRegistry&); add_reinforce_learner(registry);
}
// clang-format on

}  // namespace orrery::experiments::rl
