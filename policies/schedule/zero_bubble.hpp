// What the hand-made zero-bubble schedules share.
#pragma once

#include "policies/schedule/schedule.hpp"

namespace orrery::policies {

/// 1F1B with the backward pass in halves, on one device.
struct SplitDevice {
  std::int64_t ahead = 0;   ///< forward passes that it runs first
  std::int64_t behind = 0;  ///< micro-batches by which gradients of weights follow those of inputs
  std::int64_t last = 0;    ///< at the end, gradients of the weights of so many more micro-batches are put off
  /// It keeps ahead + 1 + behind + last micro-batches at the most.
};

ScheduleOrder split_one_f_one_b(const ScheduleView& view, const std::vector<SplitDevice>& devices);

}  // namespace orrery::policies
