// summary.json of a graph run.
#pragma once

#include "experiments/systems/graph/run.hpp"

namespace orrery::experiments::graph {

sim::Node summarise(const GraphConfig& config, const GraphResult& result);

}  // namespace orrery::experiments::graph
