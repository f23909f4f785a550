// The graph system: an operator graph, rewritten by passes, runs a stream of requests with changing sizes on a device.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System graph_system();

}  // namespace orrery::experiments
