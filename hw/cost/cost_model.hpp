// The cost models there are, by name; the interface stands in hw/base/cost_model.hpp.
//
// A model answers for the kinds of part that it is made for: its factory gives null for a device of another kind, and
// whoever chose it is told which models there are for that one (cost_models_for).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hw/base/cost_model.hpp"
#include "hw/device/device.hpp"
#include "sim/base/registry.hpp"

namespace orrery::hw {

/// Cost models by name; a factory needs the device, of which the model copies what it uses.
using CostModelRegistry = sim::Registry<CostModel, const Device&>;

/// Adds every model: of GPUs `learned`, `profile` and `tiled`; `roofline` of whatever has peaks; `npu`, `cpu`, `fpga`,
/// `upmem`, `bank_pim` and `attention_pim` of their kind; and `by_kind`, the one made for the device's kind.
void register_cost_models(CostModelRegistry& registry);

/// One function a policy file.
void register_kinds(CostModelRegistry& registry);
void register_learned(CostModelRegistry& registry);
void register_profile(CostModelRegistry& registry);
void register_roofline(CostModelRegistry& registry);
void register_tiled(CostModelRegistry& registry);

/// `tiled` for a GPU.
std::unique_ptr<CostModel> make_tiled(const GpuParams& gpu);
/// The model made for the device's kind of part; never null.
std::unique_ptr<CostModel> make_kind_cost(const Device& device);

/// The model of that name with default parameters, for a part. Throws sim::ConfigError for a name that is none, or none
/// of this kind of part.
std::unique_ptr<CostModel> make_cost_model(const std::string& name, const Part& part);

/// The device of a part under the model of that name; throws as make_cost_model does.
Device device_of(const Part& part, const std::string& cost_model = "by_kind");

/// Names of the models that answer for parts of a kind, sorted.
std::vector<std::string> cost_models_for(const Part& part);

/// The device of a part under a chosen model. A model that does not answer for its kind is a fault at `where`.
std::optional<Device> make_device(const std::string& name, const Part& part, const CostModelRegistry::Choice& cost,
                                  const sim::Origin& where, sim::Faults& faults);

}  // namespace orrery::hw
