// System `moe_layers`: training steps of layers with experts, under schedules of their chunks and gradients.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System moe_layers_system();

}  // namespace orrery::experiments
