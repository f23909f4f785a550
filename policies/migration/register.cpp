#include "policies/migration/migration.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_migrations(MigrationRegistry& registry) {
  void add_llumnix_migration(MigrationRegistry&); add_llumnix_migration(registry);
  void add_no_migration(MigrationRegistry&); add_no_migration(registry);
}
// clang-format on

}  // namespace orrery::policies
