// When the passes of an order start, for passes of given lengths: what a schedule is judged by, without an engine.
#pragma once

#include <functional>
#include <vector>

#include "policies/schedule/schedule.hpp"

namespace orrery::policies {

/// Length of a pass on a device.
using PassLength = std::function<double(std::int64_t device, const StagePass& pass)>;

struct OrderTimes {
  std::vector<std::vector<double>> start;  ///< by device, in its order
  std::vector<double> begin, end, busy;    ///< of each device: its first start, its last end, the sum of its passes
  /// Longest time from a device's first start to its last end, and the share of that which the device waits.
  double span = 0, bubble = 0;
};

/// Lengths that the view gives, the same on every device.
PassLength view_lengths(const ScheduleView& view);

/// Runs a sound order (check_order); a message between devices takes view.transfer. O(passes) as a rule.
OrderTimes run_order(const PipelineSchedule& schedule, const ScheduleView& view, const ScheduleOrder& order,
                     const PassLength& length);

/// Most that a device keeps at a time, in chunks of a micro-batch: from the start of a forward pass to the end of its
/// backward pass, or of the half for weights.
std::vector<std::int64_t> most_kept(const ScheduleOrder& order);

}  // namespace orrery::policies
