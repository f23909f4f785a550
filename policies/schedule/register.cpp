#include "policies/schedule/schedule.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_schedules(ScheduleRegistry& registry) {
  void add_gpipe(ScheduleRegistry&); add_gpipe(registry);
  void add_one_f_one_b(ScheduleRegistry&); add_one_f_one_b(registry);
  void add_interleaved(ScheduleRegistry&); add_interleaved(registry);
  void add_dualpipe_v(ScheduleRegistry&); add_dualpipe_v(registry);
  void add_listed_schedule(ScheduleRegistry&); add_listed_schedule(registry);
  void add_v_half(ScheduleRegistry&); add_v_half(registry);
  void add_v_min(ScheduleRegistry&); add_v_min(registry);
  void add_zb_auto(ScheduleRegistry&); add_zb_auto(registry);
  void add_zb_h1(ScheduleRegistry&); add_zb_h1(registry);
  void add_zb_h2(ScheduleRegistry&); add_zb_h2(registry);
  void add_zb_v(ScheduleRegistry&); add_zb_v(registry);
}
// clang-format on

}  // namespace orrery::policies
