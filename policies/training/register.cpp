#include "policies/base/graph_pass.hpp"

namespace orrery::policies {

// One line a pass: each is declared and called here, and defined in its own file.
// clang-format off
void register_training_passes(PassRegistry& registry) {
  void add_accumulate(PassRegistry&); add_accumulate(registry);
  void add_amp(PassRegistry&); add_amp(registry);
  void add_autodiff(PassRegistry&); add_autodiff(registry);
  void add_fp8(PassRegistry&); add_fp8(registry);
  void add_min_cut(PassRegistry&); add_min_cut(registry);
  void add_recompute(PassRegistry&); add_recompute(registry);
}
// clang-format on

}  // namespace orrery::policies
