#include "policies/batching/batching.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_batching_policies(BatchingRegistry& registry) {
  void add_expression(BatchingRegistry&); add_expression(registry);
  void add_fairness_priority(BatchingRegistry&); add_fairness_priority(registry);
  void add_batchllm(BatchingRegistry&); add_batchllm(registry);
  void add_fastertransformer(BatchingRegistry&); add_fastertransformer(registry);
  void add_layered_prefill(BatchingRegistry&); add_layered_prefill(registry);
  void add_lightllm(BatchingRegistry&); add_lightllm(registry);
  void add_orca(BatchingRegistry&); add_orca(registry);
  void add_priority(BatchingRegistry&); add_priority(registry);
  void add_read_me_batching(BatchingRegistry&); add_read_me_batching(registry);
  void add_sarathi(BatchingRegistry&); add_sarathi(registry);
  void add_sglang(BatchingRegistry&); add_sglang(registry);
  void add_seesaw(BatchingRegistry&); add_seesaw(registry);
  void add_sjf(BatchingRegistry&); add_sjf(registry);
  void add_static(BatchingRegistry&); add_static(registry);
  void add_tensorrt_llm(BatchingRegistry&); add_tensorrt_llm(registry);
  void add_urgency(BatchingRegistry&); add_urgency(registry);
  void add_vllm_v0(BatchingRegistry&); add_vllm_v0(registry);
  void add_vllm_v1(BatchingRegistry&); add_vllm_v1(registry);
  void add_vtc(BatchingRegistry&); add_vtc(registry);
}
// clang-format on

}  // namespace orrery::policies
