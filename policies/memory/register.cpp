#include "policies/base/graph_pass.hpp"
#include "policies/memory/planner.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_memory_planners(MemoryPlannerRegistry& registry) {
  void add_best_fit(MemoryPlannerRegistry&); add_best_fit(registry);
  void add_caching_allocator(MemoryPlannerRegistry&); add_caching_allocator(registry);
  void add_first_fit(MemoryPlannerRegistry&); add_first_fit(registry);
  void add_greedy_by_size(MemoryPlannerRegistry&); add_greedy_by_size(registry);
  void add_milp(MemoryPlannerRegistry&); add_milp(registry);
  void add_search(MemoryPlannerRegistry&); add_search(registry);
}

void register_memory_passes(PassRegistry& registry) {
  void add_out_of_place(PassRegistry&); add_out_of_place(registry);
  void add_raf_remat(PassRegistry&); add_raf_remat(registry);
  void add_schedule(PassRegistry&); add_schedule(registry);
  void add_symbolic_remat(PassRegistry&); add_symbolic_remat(registry);
  void add_tempo(PassRegistry&); add_tempo(registry);
}
// clang-format on

}  // namespace orrery::policies
