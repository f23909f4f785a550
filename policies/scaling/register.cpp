#include "policies/scaling/scaling.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_scalings(ScalingRegistry& registry) {
  void add_fixed_scaling(ScalingRegistry&); add_fixed_scaling(registry);
  void add_keep_alive(ScalingRegistry&); add_keep_alive(registry);
  void add_llumnix_scaling(ScalingRegistry&); add_llumnix_scaling(registry);
  void add_target_scaling(ScalingRegistry&); add_target_scaling(registry);
}
// clang-format on

}  // namespace orrery::policies
