// What ends work that the user stopped.
#pragma once

namespace orrery::experiments {

/// Thrown out of runs and searches when they are asked to stop.
struct Stopped {};

}  // namespace orrery::experiments
