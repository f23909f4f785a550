#include "policies/sequence_groups/sequence_groups.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_sequence_groupings(SequenceGroupingRegistry& registry) {
  void add_adaptive_groups(SequenceGroupingRegistry&); add_adaptive_groups(registry);
  void add_fixed_groups(SequenceGroupingRegistry&); add_fixed_groups(registry);
  void add_flexsp_groups(SequenceGroupingRegistry&); add_flexsp_groups(registry);
  void add_flexsp_milp_groups(SequenceGroupingRegistry&); add_flexsp_milp_groups(registry);
}
// clang-format on

}  // namespace orrery::policies
