#include "hw/cost_model.hpp"

namespace orrery::hw {

void register_cost_models(CostModelRegistry& registry) {
  register_profile(registry);
  register_roofline(registry);
  register_tiled(registry);
}

std::unique_ptr<CostModel> make_cost_model(const std::string& name, const GpuParams& gpu) {
  CostModelRegistry registry("cost_model");
  register_cost_models(registry);
  sim::Faults faults;
  const auto choice = registry.prepare(name, nullptr, {"cost_model", ""}, faults);
  faults.throw_if_any();
  return choice.make(gpu);
}

}  // namespace orrery::hw
