// System `rlhf`: iterations of reinforcement learning from feedback, and where each of its calls runs best.
#pragma once

#include "experiments/base/experiment.hpp"
#include "experiments/base/figure_table.hpp"

namespace orrery::experiments {

System rlhf_system();

}  // namespace orrery::experiments
