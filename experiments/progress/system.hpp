// System `progress`: what a training comes to, in loss, time and money, by schedule, batch and machine.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System progress_system();

}  // namespace orrery::experiments
