#include "policies/kvcache/kvcache.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_kv_caches(KvCacheRegistry& registry) {
  void add_block_hash(KvCacheRegistry&); add_block_hash(registry);
  void add_paged(KvCacheRegistry&); add_paged(registry);
}
// clang-format on

}  // namespace orrery::policies
