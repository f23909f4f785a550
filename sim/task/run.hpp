// What became of the tasks of a graph when it was run: written by sim/task/executor, read by sim/task/analysis.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/pages.hpp"
#include "sim/base/units.hpp"

namespace orrery::sim {

/// Times of one task; kNever where it has not come to that.
struct TaskRun {
  Time ready = kNever;  ///< predecessors finished and release time come
  Time start = kNever;
  Time finish = kNever;
  std::uint32_t waits = 0;    ///< what is still to come before it is ready
  std::uint32_t instant = 0;  ///< number of the instant at which a predecessor ended last
  std::uint32_t cause = 0;  ///< of the predecessors that ended then: the highest place of a first demand, + 1; 0: none
};
static_assert(sizeof(TaskRun) == 40);

/// By task.
using TaskRuns = std::vector<TaskRun, PageAllocator<TaskRun>>;

}  // namespace orrery::sim
