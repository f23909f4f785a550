#include "policies/offload/offload.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_offloads(OffloadRegistry& registry) {
  void add_deep_optimizer_states_offload(OffloadRegistry&); add_deep_optimizer_states_offload(registry);
  void add_host_offload(OffloadRegistry&); add_host_offload(registry);
  void add_streamed_offload(OffloadRegistry&); add_streamed_offload(registry);
}
// clang-format on

}  // namespace orrery::policies
