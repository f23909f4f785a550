// A history of a training job: steps, checkpoints, failures, recoveries, until it is done or its time is over.
//
// Between two changes of what the job has (a failure, a node that returns, a checkpoint) steps are alike and are
// counted, not run one by one, so weeks of a large cluster take as many events as things happen in them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "experiments/job/shape.hpp"

namespace orrery::experiments::job {

/// Times of a checkpoint and of recovery, from the config's rates and the job's state.
struct JobTimes {
  std::int64_t interval_steps = 1;
  double pause_s = 0;  ///< the job stands for a checkpoint
  double write_s = 0;  ///< after that, until an asynchronous one counts
  double copy_s = 0;   ///< of a copy into memory
  double load_s = 0;   ///< of a checkpoint
  double move_s = 0;   ///< of a node's state from its peers
};
JobTimes job_times(const JobConfig& config, const JobShape& shape);

/// Where the time went, s. They add up to the whole.
struct JobSeconds {
  double productive = 0;   ///< of steps that stayed, as long as they take with every node, by their share of sequences
  double slower = 0;       ///< what those steps took more: lost nodes, the policy's overhead
  double lost = 0;         ///< steps done again, and those that failures cut off
  double checkpoints = 0;  ///< the job stood for them
  double recovery = 0;     ///< detection, communicators, restarts, state on its way
  double waiting = 0;      ///< for nodes to be there
  double whole() const { return productive + slower + lost + checkpoints + recovery + waiting; }
  JobSeconds& operator+=(const JobSeconds& other);
};

enum class EventKind : std::uint8_t { failure, recovery, waiting, node_back, checkpoint, end };
constexpr auto enum_names(EventKind) {
  using enum EventKind;
  return sim::names<EventKind>({{"failure", failure},
                                {"recovery", recovery},
                                {"waiting", waiting},
                                {"node_back", node_back},
                                {"checkpoint", checkpoint},
                                {"end", end}});
}

struct JobEvent {
  EventKind kind = EventKind::failure;
  double begin_s = 0, end_s = 0;
  std::int64_t node = -1;       ///< -1: the whole job
  std::int64_t component = -1;  ///< of Failures::names; -1: none
  double steps = 0;             ///< done and still there, in whole batches
  double step_s = 0;            ///< from now on
  double share = 1;
};

struct History {
  JobSeconds seconds;
  double steps = 0;            ///< that stayed, in whole batches
  std::int64_t runs = 0;       ///< of steps, those lost included
  std::int64_t failures = 0;   ///< that interrupted the job
  std::int64_t rollbacks = 0;  ///< to a checkpoint or a copy
  std::int64_t checkpoints = 0;
  double down_s = 0;            ///< from failures to the steps after them
  std::int64_t recoveries = 0;  ///< failures close together are one
  std::vector<std::int64_t> by_component;
  bool done = false;  ///< job.steps were reached
};

/// Plays history number `index`. `tell`: each event in order; may be empty.
History play(const JobConfig& config, const JobShape& shape, std::int64_t index,
             const std::function<void(const JobEvent&)>& tell);

}  // namespace orrery::experiments::job
