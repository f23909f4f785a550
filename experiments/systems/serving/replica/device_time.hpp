// Where the devices of a replica stand in time, to the picosecond whatever the tick.
#pragma once

#include <cstdint>

#include "experiments/systems/serving/load/request.hpp"

namespace orrery::experiments {

struct DeviceTime {
  std::int64_t ps_per_tick = 1;
  ExactTime at;               ///< the end of what was last booked
  std::int64_t stall_ps = 0;  ///< of mode switches and transfers, before the next iteration

  /// `time` in ps from now on (it is not before).
  std::int64_t until(const ExactTime& time) const { return time.minus(at, ps_per_tick); }
  ExactTime after(std::int64_t ps) const { return at.plus(ps, ps_per_tick); }
};

}  // namespace orrery::experiments
