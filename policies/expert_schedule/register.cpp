#include "policies/expert_schedule/expert_schedule.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_expert_schedules(ExpertScheduleRegistry& registry) {
  void add_fetch_expert_schedule(ExpertScheduleRegistry&); add_fetch_expert_schedule(registry);
  void add_fiddler_expert_schedule(ExpertScheduleRegistry&); add_fiddler_expert_schedule(registry);
  void add_host_expert_schedule(ExpertScheduleRegistry&); add_host_expert_schedule(registry);
  void add_hybrimoe_expert_schedule(ExpertScheduleRegistry&); add_hybrimoe_expert_schedule(registry);
}
// clang-format on

}  // namespace orrery::policies
