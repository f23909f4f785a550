// System `mixture`: rounds of training on domains whose shares a policy chooses.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System mixture_system();

}  // namespace orrery::experiments
