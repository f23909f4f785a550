#include "hw/cost_model.hpp"

namespace orrery::hw {

void register_cost_models(CostModelRegistry& registry) {
  register_roofline(registry);
  register_tiled(registry);
}

}  // namespace orrery::hw
