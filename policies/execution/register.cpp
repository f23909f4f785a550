#include "policies/execution/execution.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_execution_policies(ExecutionRegistry& registry) {
  void add_aot(ExecutionRegistry&); add_aot(registry);
  void add_eager(ExecutionRegistry&); add_eager(registry);
  void add_graph(ExecutionRegistry&); add_graph(registry);
  void add_jit(ExecutionRegistry&); add_jit(registry);
  void add_vm(ExecutionRegistry&); add_vm(registry);
}
// clang-format on

}  // namespace orrery::policies
