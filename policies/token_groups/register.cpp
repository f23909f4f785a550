#include "policies/token_groups/token_groups.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_token_groups(TokenGroupsRegistry& registry) {
  void add_arrival_token_groups(TokenGroupsRegistry&); add_arrival_token_groups(registry);
  void add_expertflow_token_groups(TokenGroupsRegistry&); add_expertflow_token_groups(registry);
  void add_read_me_token_groups(TokenGroupsRegistry&); add_read_me_token_groups(registry);
}
// clang-format on

}  // namespace orrery::policies
