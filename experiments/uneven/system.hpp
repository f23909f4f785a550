// System `uneven_batches`: training batches of unlike sequences, shared out over groups of devices.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System uneven_batches_system();

}  // namespace orrery::experiments
