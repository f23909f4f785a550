// The question of plans, put to training: `orrery plans` on a training config.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System training_plans_system();

}  // namespace orrery::experiments
