#include "hw/cost/cost_model.hpp"

#include <fmt/format.h>

namespace orrery::hw {

void register_cost_models(CostModelRegistry& registry) {
  register_kinds(registry);
  register_learned(registry);
  register_profile(registry);
  register_roofline(registry);
  register_tiled(registry);
}

namespace {

/// Whether a model is made for the kind of the device, be it that a file of its own is missing.
bool is_made_for(const CostModelRegistry::Choice& choice, const Device& device) {
  try {
    return choice.make(device) != nullptr;
  } catch (const sim::ConfigError&) {
    return true;
  }
}

}  // namespace

std::vector<std::string> cost_models_for(const Part& part) {
  CostModelRegistry registry("cost_model");
  register_cost_models(registry);
  const Device device = make_device("", part, [](const Device& of) { return make_kind_cost(of); });
  std::vector<std::string> names;
  for (const std::string& name : registry.names()) {
    sim::Faults none;
    if (is_made_for(registry.prepare(name, nullptr, {}, none), device)) names.push_back(name);
  }
  return names;
}

std::optional<Device> make_device(const std::string& name, const Part& part, const CostModelRegistry::Choice& cost,
                                  const sim::Origin& where, sim::Faults& faults) {
  bool answers = true;
  Device device = make_device(name, part, [&](const Device& of) {
    std::unique_ptr<CostModel> model = cost.make(of);
    answers = model != nullptr;
    return answers ? std::move(model) : make_kind_cost(of);
  });
  if (!answers) {
    faults.add(
        where,
        fmt::format("expected a cost model of parts of kind {} for {}, got '{}'", kind_of(part), name, cost.name),
        fmt::format("one of {}", fmt::join(cost_models_for(part), ", ")));
    return std::nullopt;
  }
  device.make_cost = cost.make;
  return device;
}

Device device_of(const Part& part, const std::string& cost_model) {
  CostModelRegistry registry("cost_model");
  register_cost_models(registry);
  sim::Faults faults;
  const sim::Origin where{"cost_model", ""};
  const auto choice = registry.prepare(cost_model, nullptr, where, faults);
  faults.throw_if_any();
  auto device = make_device(std::string(kind_of(part)), part, choice, where, faults);
  faults.throw_if_any();
  return *std::move(device);
}

std::unique_ptr<CostModel> make_cost_model(const std::string& name, const Part& part) {
  const Device device = device_of(part, name);
  return device.make_cost(device);
}

}  // namespace orrery::hw
