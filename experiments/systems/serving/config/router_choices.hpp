// Who chooses which experts in a serving run, beside its requests: workload.router (docs/explain/router-traces.md).
#pragma once

#include "experiments/systems/serving/config/config.hpp"

namespace orrery::experiments {

/// Reads the trace of workload.router, or draws it; reports what it cannot stand beside, and placements without it.
void read_router_choices(const sim::Node& root, ServingConfig& config, sim::Faults& faults);

}  // namespace orrery::experiments
