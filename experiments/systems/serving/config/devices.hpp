// The devices of a serving config (`machine`): parts of the catalog with their overrides, clocks, attention in memory
// beside them, and the platform that launches on them.
#pragma once

#include "sim/base/document.hpp"

namespace orrery::experiments {

struct ServingConfig;

/// Reads the parts, so that what is wrong is reported where it stands.
void read_devices(const sim::Node& machine, ServingConfig& config, sim::Faults& faults);
/// Clocks need somebody to choose them, and whoever chooses needs clocks; tables of measured operators have one.
void check_power(const sim::Node& policies, const sim::Node& machine, const ServingConfig& config, sim::Faults& faults);

}  // namespace orrery::experiments
