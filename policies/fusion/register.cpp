#include "policies/base/graph_pass.hpp"

namespace orrery::policies {

// One line a pass: each is declared and called here, and defined in its own file.
// clang-format off
void register_fusion_passes(PassRegistry& registry) {
  void add_adopter(PassRegistry&); add_adopter(registry);
  void add_dp_fusion(PassRegistry&); add_dp_fusion(registry);
  void add_engine_kernels(PassRegistry&); add_engine_kernels(registry);
  void add_graph_capture(PassRegistry&); add_graph_capture(registry);
  void add_greedy_fusion(PassRegistry&); add_greedy_fusion(registry);
  void add_loop_fusion(PassRegistry&); add_loop_fusion(registry);
  void add_pattern_fusion(PassRegistry&); add_pattern_fusion(registry);
  void add_proximity_fusion(PassRegistry&); add_proximity_fusion(registry);
  void add_raf_dialect(PassRegistry&); add_raf_dialect(registry);
  void add_runtime_fusion(PassRegistry&); add_runtime_fusion(registry);
  void add_stacking(PassRegistry&); add_stacking(registry);
  void add_step_fusion(PassRegistry&); add_step_fusion(registry);
}
// clang-format on

}  // namespace orrery::policies
