// Orders made by running the pipeline: at every instant the device that can start first starts what is most urgent.
//
// Backward and forward passes take turns where both can start, a device keeping no more than a limit; gradients of
// weights, which nobody waits for, fill the gaps, and make room where the limit holds a forward pass up. This is
// the heuristic of the automatic schedules of Zero Bubble (Qi et al., ICLR 2024, section 4), without its search over
// the ways to break ties.
#pragma once

#include "policies/schedule/schedule.hpp"

namespace orrery::policies {

/// `limit` by device: chunks of a micro-batch whose activations it may keep, at least one per chunk of the device;
/// after the gradients of inputs, view.kept_for_weights of one is left. Routes are the schedule's.
ScheduleOrder greedy_order(const PipelineSchedule& schedule, const ScheduleView& view,
                           const std::vector<std::int64_t>& limit);

}  // namespace orrery::policies
