// summary.json of a launch run.
#pragma once

#include "experiments/systems/launch/run.hpp"
#include "sim/base/document.hpp"

namespace orrery::experiments::launch {

/// Time of a pass over that of the same pass with idealised fusion.
double fusion_gain(const Point& point);

/// `platforms.NAME.MODEL` with the crossover and every batch; `comparison.MODEL` with what the last platform's
/// crossover and times are to the others'.
sim::Node summarise(const LaunchConfig& config, const LaunchResult& result);

}  // namespace orrery::experiments::launch
