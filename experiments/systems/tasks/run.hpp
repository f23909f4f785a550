// One replay: the task graph of all ranks, run on an engine over the network.
#pragma once

#include <functional>
#include <vector>

#include "experiments/systems/tasks/trace_graph.hpp"
#include "sim/task/analysis.hpp"
#include "sim/task/run.hpp"

namespace orrery::experiments::tasks {

/// What a rank did, in ticks.
struct RankTimes {
  sim::Duration busy;           ///< of its device
  sim::Duration communication;  ///< with a send or a collective under way, or a message for it
  sim::Duration exposed;        ///< of that, while its device is idle
  sim::Time finish;             ///< of its last task
  std::int64_t tasks = 0;
};

/// The chain of tasks that makes the run as long as it is, by what its tasks do.
struct PathTimes {
  sim::Duration compute, communication, memory, waiting;
  std::vector<sim::PathStep> steps;
};

struct TasksResult {
  TraceGraph trace;
  std::vector<sim::TaskRun> runs;  ///< by task
  std::vector<RankTimes> ranks;
  PathTimes path;
  sim::Duration makespan;
  sim::Duration bound;       ///< what it cannot be below: the longest chain, and each device's own work
  double carried_bytes = 0;  ///< over all links
  std::uint64_t events = 0;
};

/// Throws sim::ConfigError for traces that do not fit together: a message of its tasks and ranks where they wait for
/// each other.
TasksResult replay(const TasksConfig& config);

}  // namespace orrery::experiments::tasks
