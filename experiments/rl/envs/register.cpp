#include "experiments/rl/core/env.hpp"

namespace orrery::experiments::rl {

// One line an environment: each is declared and called here, and defined in its own file.
// clang-format off
void register_envs(EnvRegistry& registry) {
  void add_acrobot_env(EnvRegistry&); add_acrobot_env(registry);
  void add_cart_pole_env(EnvRegistry&); add_cart_pole_env(registry);
  void add_contextual_bandit_env(EnvRegistry&); add_contextual_bandit_env(registry);
  void add_design_env(EnvRegistry&); add_design_env(registry);
  void add_expert_cache_env(EnvRegistry&); add_expert_cache_env(registry);
  void add_job_shop_env(EnvRegistry&); add_job_shop_env(registry);
  void add_matrix_game_env(EnvRegistry&); add_matrix_game_env(registry);
  void add_memory_map_env(EnvRegistry&); add_memory_map_env(registry);
  void add_pendulum_env(EnvRegistry&); add_pendulum_env(registry);
  void add_rendezvous_env(EnvRegistry&); add_rendezvous_env(registry);
  void add_serving_admission_env(EnvRegistry&); add_serving_admission_env(registry);
  void add_serving_batching_env(EnvRegistry&); add_serving_batching_env(registry);
  void add_serving_clock_env(EnvRegistry&); add_serving_clock_env(registry);
  void add_serving_routing_env(EnvRegistry&); add_serving_routing_env(registry);
  void add_serving_scaling_env(EnvRegistry&); add_serving_scaling_env(registry);
  void add_task_placement_env(EnvRegistry&); add_task_placement_env(registry);
}
// clang-format on

}  // namespace orrery::experiments::rl
