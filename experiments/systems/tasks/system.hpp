// The tasks system: execution traces of many ranks, replayed over a network.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System tasks_system();

}  // namespace orrery::experiments
