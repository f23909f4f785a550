#include "policies/graph_pass.hpp"

namespace orrery::policies {

void register_fusion_passes(PassRegistry& registry) {
  static_cast<void>(registry);
}

}  // namespace orrery::policies
