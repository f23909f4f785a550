#include "policies/power/power.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_clock_policies(ClockRegistry& registry) {
  void add_highest_clock(ClockRegistry&); add_highest_clock(registry);
  void add_prefill_high_clock(ClockRegistry&); add_prefill_high_clock(registry);
  void add_tbt_target_clock(ClockRegistry&); add_tbt_target_clock(registry);
}
// clang-format on

}  // namespace orrery::policies
