// Which of the ready tasks of a graph start: the books of units held and tasks waiting, without clock or events.
//
// Tasks with the same demands can start or not as one, so they wait in one lane, and only the first of a lane is ever
// looked at. A resource that no task demands together with another is served by itself; lanes of the others compete in
// the order of their keys. The rule is stated in sim/task/executor.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/task/graph.hpp"
#include "sim/task/ready_queue.hpp"
#include "sim/task/run.hpp"

namespace orrery::sim {

class TaskDispatch {
 public:
  static constexpr std::uint32_t kNone = ~0U;

  /// `runs` is the caller's, who keeps the ready and start times in it.
  TaskDispatch(const TaskGraph& graph, const TaskRuns& runs) : graph_(graph), runs_(runs) {}
  /// Takes note of resources and tasks that the graph has gained. Every task must be noted before it becomes ready.
  void extend();
  /// A task with demands became ready (its time is in `runs`).
  void ready(std::uint32_t task);
  /// A ready task is not ready after all. Linear in the tasks of its lane.
  void withdraw(std::uint32_t task);
  /// A task that was started has ended: its units are free.
  void release(std::uint32_t task);
  /// True if next() may have something to start.
  bool pending() const { return !touched_.empty() || !candidates_.empty(); }
  /// The next task to start at this instant, its units taken; kNone if there is none, which ends the round. Between
  /// two calls of a round only withdraw() and extend() may be called.
  std::uint32_t next();

 private:
  struct Resource {
    std::int64_t free = 0;
    bool program = false;
    bool shared = false;                // some set demands this and another resource
    bool touched = false;               // is in touched_
    std::vector<std::uint32_t> active;  // demands (in the row of all) of the lanes that have a task to offer
    std::vector<std::uint32_t> line;    // program order: tasks that have not started, from `head` on
    std::size_t head = 0;
  };
  struct Lane {
    ReadyQueue queue;            // unused where `program`
    std::uint32_t lead = kNone;  // the first `program` resource demanded
    std::uint32_t offered = 0;   // where `program` and active: the task, and its key
    OrderKey offered_key;
    TaskOrder order = TaskOrder::fifo;
    TaskKey* key = nullptr;
    bool active = false;      // has a task to offer
    bool considered = false;  // is in candidates_ or heap_
    bool program() const { return lead != kNone; }
  };
  struct Candidate {
    OrderKey key;
    std::uint32_t lane;
  };

  void add_lane(std::uint32_t set);
  std::uint32_t next_alone(std::uint32_t resource);
  std::uint32_t next_candidate();
  void touch(std::uint32_t resource);
  void consider(std::uint32_t lane);
  void push_candidate(std::uint32_t lane);
  void offer(std::uint32_t task);
  void offer_head(std::uint32_t resource);
  void start(std::uint32_t task);
  void leave_lines(std::uint32_t task);
  void activate(std::uint32_t lane);
  void deactivate(std::uint32_t lane);
  std::uint32_t take(std::uint32_t lane);
  bool fits(std::uint32_t lane) const;
  OrderKey key_of(std::uint32_t task, const Lane& lane) const;
  OrderKey front_key(const Lane& lane) const { return lane.program() ? lane.offered_key : lane.queue.front_key(); }
  bool is_ready(std::uint32_t task) const { return runs_[task].ready != kNever && runs_[task].start == kNever; }
  bool has_head(const Resource& resource) const { return resource.head < resource.line.size(); }
  bool is_head(std::uint32_t task, const Resource& resource) const {
    return has_head(resource) && resource.line[resource.head] == task;
  }

  const TaskGraph& graph_;
  const TaskRuns& runs_;
  std::vector<Resource> resources_;
  std::vector<Lane> lanes_;             // by set of demands
  std::vector<std::uint32_t> lane_of_;  // by demand
  std::vector<std::uint32_t> place_;    // by demand: where it stands in its resource's `active`
  std::size_t tasks_ = 0;               // noted
  bool programs_ = false;               // there are program resources
  bool serving_ = false;                // a round is under way
  bool competing_ = false;              // resources that stand alone are done with, and it is the lanes' turn
  std::size_t served_ = 0;              // place in touched_ of the resource being served
  std::vector<std::uint32_t> touched_;
  std::vector<std::uint32_t> candidates_;
  std::vector<Candidate> heap_;
};

}  // namespace orrery::sim
