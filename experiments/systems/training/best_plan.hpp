// The best of all plans in place of a config's own.
#pragma once

#include "experiments/systems/training/config.hpp"

namespace orrery::experiments::training {

/// Puts the best plan by `plan.best_by`, and the schedule that it wants, into the config; where none can be, says why
/// in `no_plan`. `node`: the config's section `plan`. Faults: a schedule that the planner does not reckon with, the
/// largest batch, which has no plan to divide it.
void take_best_plan(const sim::Node& node, const sim::RegistrySet& registries, TrainingConfig& config,
                    sim::Faults& faults);

}  // namespace orrery::experiments::training
