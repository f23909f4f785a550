// The launch system: a CPU thread launches models' kernels onto a GPU, and what bounds that by batch.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System launch_system();

}  // namespace orrery::experiments
