#include "policies/expert_order/expert_order.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_expert_orders(ExpertOrderRegistry& registry) {
  void add_by_expert_order(ExpertOrderRegistry&); add_by_expert_order(registry);
  void add_by_level_order(ExpertOrderRegistry&); add_by_level_order(registry);
  void add_hebf_order(ExpertOrderRegistry&); add_hebf_order(registry);
}
// clang-format on

}  // namespace orrery::policies
