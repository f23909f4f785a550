#include "policies/experts/expert_cache.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_expert_caches(ExpertCacheRegistry& registry) {
  void add_belady_expert_cache(ExpertCacheRegistry&); add_belady_expert_cache(registry);
  void add_d2moe_expert_cache(ExpertCacheRegistry&); add_d2moe_expert_cache(registry);
  void add_expression_expert_cache(ExpertCacheRegistry&); add_expression_expert_cache(registry);
  void add_frequent_recent_expert_cache(ExpertCacheRegistry&); add_frequent_recent_expert_cache(registry);
  void add_lfu_expert_cache(ExpertCacheRegistry&); add_lfu_expert_cache(registry);
  void add_lru_expert_cache(ExpertCacheRegistry&); add_lru_expert_cache(registry);
  void add_mrs_expert_cache(ExpertCacheRegistry&); add_mrs_expert_cache(registry);
  void add_plec_expert_cache(ExpertCacheRegistry&); add_plec_expert_cache(registry);
  void add_random_expert_cache(ExpertCacheRegistry&); add_random_expert_cache(registry);
  void add_ring_expert_cache(ExpertCacheRegistry&); add_ring_expert_cache(registry);
  void add_segment_expert_cache(ExpertCacheRegistry&); add_segment_expert_cache(registry);
  void add_static_expert_cache(ExpertCacheRegistry&); add_static_expert_cache(registry);
}
// clang-format on

}  // namespace orrery::policies
