// What a run of a task graph tells: why it took so long, how busy its resources were, and what bounds it.
//
// All of it is worked out afterwards from the graph and the times of its tasks, in O(n log n); a run pays nothing for
// it. Times are exact integers of ticks. Every function wants a run that is complete, and throws std::logic_error
// otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/task/graph.hpp"
#include "sim/task/run.hpp"

namespace orrery::sim {

/// Why a task did not start earlier.
enum class HeldBy : std::uint8_t {
  nothing,      ///< it started at the origin
  predecessor,  ///< the last of its predecessors finished just then (of several, the lowest id)
  release,      ///< its release time came just then
  added,        ///< it was added during the run, just then
  resource,     ///< a task finished just then on a resource that had not enough units free (the lowest id)
  order,        ///< a `program` resource: the task before it started just then
};

/// A piece of the critical path: `task` from `begin` to `end`.
struct PathStep {
  TaskId task;
  Time begin;  ///< the task's start
  Time end;    ///< its finish; its start if the next step was waiting for that (HeldBy::order)
  HeldBy held = HeldBy::nothing;
  TaskId by;        ///< predecessor, resource, order: the task of the step before
  ResourceId at;    ///< resource, order: which
  Duration wait;    ///< nothing of the path ran for so long before `begin`
  Duration queued;  ///< start - ready: what the task itself spent waiting for resources
  Duration length() const { return end - begin; }
};

/// The chain of tasks that ends with the last finish, each held back by the one before it. Waits and lengths add up to
/// the makespan, exactly; only the first step can have a wait.
struct CriticalPath {
  std::vector<PathStep> steps;
  Duration makespan() const;
};

/// Walks back from the last finish (the lowest id of several). `origin` is the executor's. Empty without tasks.
CriticalPath critical_path(const TaskGraph& graph, std::span<const TaskRun> runs, Time origin);

/// The longest chain of dependencies, as if every resource had endless units.
struct LongestPath {
  std::vector<TaskId> tasks;  ///< first to last
  Duration length;            ///< from the origin to the last finish, release times included
};

/// The longest chain, in O(n + edges). A flow takes what it took in `runs`; without `runs`, no time. Release times
/// count from `origin`. Throws TaskCycle if tasks wait for each other.
LongestPath longest_path(const TaskGraph& graph, std::span<const TaskRun> runs = {}, Time origin = {});

/// What the makespan cannot be below: the longest path, and for each resource its work over its capacity, rounded up.
/// Flows as in longest_path.
Duration makespan_bound(const TaskGraph& graph, std::span<const TaskRun> runs = {}, Time origin = {});

/// How a resource spent a run, in units times ticks. The parts add up to capacity times makespan, exactly.
struct ResourceUse {
  std::int64_t tasks = 0;
  __int128 busy = 0;
  __int128 idle_before = 0;   ///< before the first task that holds it starts
  __int128 idle_starved = 0;  ///< between first start and last finish, while no ready task demands it
  __int128 idle_blocked =
      0;  ///< between them, while a ready task waits that demands it and something else, or more units
  __int128 idle_after = 0;  ///< after the last finish
  __int128 idle() const { return idle_before + idle_starved + idle_blocked + idle_after; }
  /// busy over everything; 0 for a run of no length.
  double utilisation() const;
};

/// By resource.
std::vector<ResourceUse> resource_use(const TaskGraph& graph, std::span<const TaskRun> runs, Time origin);

}  // namespace orrery::sim
