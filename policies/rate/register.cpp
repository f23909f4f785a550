#include "policies/rate/rate.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_rates(RateRegistry& registry) {
  void add_constant_rate(RateRegistry&); add_constant_rate(registry);
  void add_cosine_rate(RateRegistry&); add_cosine_rate(registry);
  void add_linear_rate(RateRegistry&); add_linear_rate(registry);
  void add_refined_rate(RateRegistry&); add_refined_rate(registry);
  void add_rex_rate(RateRegistry&); add_rex_rate(registry);
  void add_step_rate(RateRegistry&); add_step_rate(registry);
  void add_uba_rate(RateRegistry&); add_uba_rate(registry);
}
// clang-format on

}  // namespace orrery::policies
