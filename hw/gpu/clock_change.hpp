// What another clock does to any part: by how much its rates and the energy of its operations change, and what is left
// of its range. The equations are those of hw/gpu/dvfs.hpp.
#pragma once

#include "hw/gpu/dvfs.hpp"

namespace orrery::hw {

struct ClockChange {
  double share = 1;            ///< of the clock before: rates
  double voltage_squared = 1;  ///< of that before: energy of an operation
  DvfsParams dvfs;             ///< of the part at the new clock, whose highest clock and voltage are the new ones
};

/// From `from_hz`, the highest clock, to `to_hz`. Throws std::invalid_argument outside the lowest to the highest clock.
ClockChange change_clock(const DvfsParams& dvfs, double from_hz, double to_hz);

}  // namespace orrery::hw
