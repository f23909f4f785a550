// The network system: collectives, flows and traffic on a topology, and what comes out.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System network_system();

}  // namespace orrery::experiments
