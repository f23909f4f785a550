#include "policies/placement/placement.hpp"

namespace orrery::policies {

void register_placement_passes(PassRegistry& registry) {
  add_byoc(registry);
  add_proteus(registry);
  add_slapo(registry);
}

}  // namespace orrery::policies
