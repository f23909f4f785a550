#include "policies/expert_placement/expert_placement.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_expert_placements(ExpertPlacementRegistry& registry) {
  void add_balanced_expert_placement(ExpertPlacementRegistry&); add_balanced_expert_placement(registry);
  void add_contiguous_expert_placement(ExpertPlacementRegistry&); add_contiguous_expert_placement(registry);
  void add_eplb_expert_placement(ExpertPlacementRegistry&); add_eplb_expert_placement(registry);
  void add_expression_expert_placement(ExpertPlacementRegistry&); add_expression_expert_placement(registry);
  void add_moetuner_expert_placement(ExpertPlacementRegistry&); add_moetuner_expert_placement(registry);
}
// clang-format on

}  // namespace orrery::policies
