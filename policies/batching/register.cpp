#include "policies/batching/batching.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_batching_policies(BatchingRegistry& registry) {
  void add_orca(BatchingRegistry&); add_orca(registry);
  void add_sarathi(BatchingRegistry&); add_sarathi(registry);
  void add_sglang(BatchingRegistry&); add_sglang(registry);
  void add_static(BatchingRegistry&); add_static(registry);
  void add_vllm_v0(BatchingRegistry&); add_vllm_v0(registry);
  void add_vllm_v1(BatchingRegistry&); add_vllm_v1(registry);
}
// clang-format on

}  // namespace orrery::policies
