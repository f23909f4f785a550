#include "policies/recovery/recovery.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_recoveries(RecoveryRegistry& registry) {
  void add_drop_replica_recovery(RecoveryRegistry&); add_drop_replica_recovery(registry);
  void add_elastic_recovery(RecoveryRegistry&); add_elastic_recovery(registry);
  void add_migrate_recovery(RecoveryRegistry&); add_migrate_recovery(registry);
  void add_recycle_recovery(RecoveryRegistry&); add_recycle_recovery(registry);
  void add_restart_recovery(RecoveryRegistry&); add_restart_recovery(registry);
}
// clang-format on

}  // namespace orrery::policies
