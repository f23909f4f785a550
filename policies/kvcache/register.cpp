#include "policies/kvcache/kvcache.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_kv_caches(KvCacheRegistry& registry) {
  void add_block_groups(KvCacheRegistry&); add_block_groups(registry);
  void add_block_hash(KvCacheRegistry&); add_block_hash(registry);
  void add_buddy(KvCacheRegistry&); add_buddy(registry);
  void add_contiguous(KvCacheRegistry&); add_contiguous(registry);
  void add_paged(KvCacheRegistry&); add_paged(registry);
  void add_radix(KvCacheRegistry&); add_radix(registry);
}
// clang-format on

}  // namespace orrery::policies
