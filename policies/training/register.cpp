#include "policies/graph_pass.hpp"

namespace orrery::policies {

void register_training_passes(PassRegistry& registry) {
  static_cast<void>(registry);
}

}  // namespace orrery::policies
