// The kinds of measured tables there are: one line each.
#include "experiments/fidelity/table_kind.hpp"

namespace orrery::experiments {

std::vector<std::unique_ptr<TableKind>> table_kinds() {
  std::vector<std::unique_ptr<TableKind>> all;
  all.push_back(attention_tables());
  all.push_back(collective_tables());
  all.push_back(deepep_tables());
  all.push_back(edge_attention_tables());
  all.push_back(edge_layernorm_tables());
  all.push_back(elementwise_tables());
  all.push_back(eplb_oracle_tables());
  all.push_back(expert_placement_tables());
  all.push_back(gemm_tables());
  all.push_back(grouped_tables());
  all.push_back(ktransformers_tables());
  all.push_back(layer_tables());
  all.push_back(moe_cache_oracle_tables());
  all.push_back(moe_ep_imbalance_tables());
  all.push_back(moe_router_profile_tables());
  all.push_back(moe_tables());
  all.push_back(npu_tables());
  all.push_back(pim_tables());
  all.push_back(profile_tables());
  all.push_back(serving_apex_tables());
  all.push_back(serving_layered_tables());
  all.push_back(serving_sarathi_tables());
  all.push_back(serving_splitwise_tables());
  all.push_back(serving_vllm_tables());
  all.push_back(silicon_tables());
  all.push_back(stream_tables());
  all.push_back(training_aceso_tables());
  all.push_back(training_interference_tables());
  all.push_back(training_llmfoundry_tables());
  all.push_back(training_megatron_tables());
  all.push_back(training_mist_tables());
  all.push_back(training_nemo_tables());
  all.push_back(training_step_tables());
  all.push_back(training_torchtitan_tables());
  all.push_back(training_vtrain_tables());
  all.push_back(training_zero_bubble_tables());
  all.push_back(transaction_oracle_tables());
  all.push_back(wide_ep_tables());
  return all;
}

}  // namespace orrery::experiments
