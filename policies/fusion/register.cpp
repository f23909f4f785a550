#include "policies/graph_pass.hpp"

namespace orrery::policies {

// One line a pass: each is declared and called here, and defined in its own file.
// clang-format off
void register_fusion_passes(PassRegistry& registry) {
  void add_loop_fusion(PassRegistry&); add_loop_fusion(registry);
  void add_pattern_fusion(PassRegistry&); add_pattern_fusion(registry);
  void add_step_fusion(PassRegistry&); add_step_fusion(registry);
  void add_raf_dialect(PassRegistry&); add_raf_dialect(registry);
}
// clang-format on

}  // namespace orrery::policies
