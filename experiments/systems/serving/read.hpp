// Serving experiments whose policies stand in no registry: Python's, for one.
#pragma once

#include <functional>
#include <memory>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/serving/config/config.hpp"

namespace orrery::experiments {

/// Reads a serving experiment as the system does; `change` puts policies into its config that stand in no registry.
/// What it puts in place of a policy it also writes into `resolved`, which tells one experiment from another.
std::unique_ptr<Experiment> read_serving(const sim::Node& root, const SharedRegistries& registries, sim::Faults& faults,
                                         const std::function<void(ServingConfig&)>& change);

}  // namespace orrery::experiments
