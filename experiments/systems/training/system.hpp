// The training system: a step of a model under a plan on a machine.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System training_system();

}  // namespace orrery::experiments
