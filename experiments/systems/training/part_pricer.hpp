// What one graph of a layer costs a rank, op by op: kernels by the device's cost model, collectives, launches, and what
// it holds.
#pragma once

#include <set>
#include <string>

#include "experiments/systems/training/part_costs.hpp"

namespace orrery::experiments::training {

/// Adds up the parts for one micro-batch. `experts`: names of their weights; `busiest`: rows of the busiest rank's
/// experts over the mean; `sizes` are of a rank's tokens, `sequence` of all.
ModelCosts priced_parts(const TrainingMachine& machine, const LayerGraph& layer, const std::set<std::string>& experts,
                        const LayerShare& share, double busiest, const models::Bindings& sizes,
                        const models::Bindings& sequence);

}  // namespace orrery::experiments::training
