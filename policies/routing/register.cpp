#include "policies/routing/routing.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_routers(RouterRegistry& registry) {
  void add_expression_router(RouterRegistry&); add_expression_router(registry);
  void add_hexgen(RouterRegistry&); add_hexgen(registry);
  void add_infaas(RouterRegistry&); add_infaas(registry);
  void add_jsq(RouterRegistry&); add_jsq(registry);
  void add_least_loaded(RouterRegistry&); add_least_loaded(registry);
  void add_llumnix(RouterRegistry&); add_llumnix(registry);
  void add_power_of_two(RouterRegistry&); add_power_of_two(registry);
  void add_prefix_aware(RouterRegistry&); add_prefix_aware(registry);
  void add_random_router(RouterRegistry&); add_random_router(registry);
  void add_round_robin(RouterRegistry&); add_round_robin(registry);
  void add_session_affinity(RouterRegistry&); add_session_affinity(registry);
  void add_shortest_stay(RouterRegistry&); add_shortest_stay(registry);
  void add_slo_aware(RouterRegistry&); add_slo_aware(registry);
}
// clang-format on

}  // namespace orrery::policies
