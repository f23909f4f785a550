// Runs a task graph on an engine.
//
// The rule. At an instant, whatever is due comes first: tasks that end free their units, and tasks whose predecessors
// have all finished and whose release time has come become ready. A ready task without demands starts there and then
// (and if it takes no time, ends there and then). After that tasks are started one by one: of the ready tasks that can
// start, the one with the smallest key. A task can start if all the units it demands are free and it is the head of
// every `program` resource among its demands; it takes all of them or none and holds them to its end, so nobody holds
// while waiting and nothing can deadlock. A task that cannot start is passed over. What a start sets off at the same
// instant (tasks of no duration, tasks added by an observer) is due in a further round of the same instant. The key is
// (order's value, time of becoming ready, cause, id), as given by the first of the task's demands that is not a
// `program` resource (none: as for fifo). The cause decides between tasks that become ready at one instant: it is the
// place of the resource (its first demand's) on which the last predecessor ran, the later place if several ended at
// this instant; so what ends together is followed up resource by resource. Places count from 1: predecessors without
// demands count as 0, before every resource, and so do release times, and predecessors that had ended (at this very
// instant too) before the task was added or made to wait for them. Tasks that share no resource do not
// influence each other. Between tasks that share one but are ordered by different ones, keys are compared as numbers:
// give such resources the same order.
//
// The schedule does not depend on the order in which dependencies were added. Cost: one engine event and some 100 ns a
// task with one demand, independent of the size of the graph. Where tasks share a resource with different demands,
// every start there looks once at each set of demands that has a task waiting.
// Left out: preemption; a resource's capacity does not change.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine.hpp"
#include "sim/task/dispatch.hpp"
#include "sim/task/graph.hpp"
#include "sim/task/run.hpp"

namespace orrery::sim {

/// Carries the bytes of flow tasks.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Starts carrying `flow` for `task`. When its last byte has arrived, `done.on_event(payload)` is to be called, once;
  /// this may happen within start() (and then counts for the next round of this instant).
  virtual void start(TaskId task, const FlowSpec& flow, EventHandler& done, std::uint64_t payload) = 0;
};

/// Is told of every start and finish as it happens, and may add tasks and dependencies from within.
class TaskObserver {
 public:
  virtual ~TaskObserver() = default;
  virtual void on_start(TaskId task, Time now) { (void)task, (void)now; }
  /// Comes before any successor becomes ready: a dependency that is added here still holds it back.
  virtual void on_finish(TaskId task, Time now) { (void)task, (void)now; }
};

class TaskExecutor final : private EventHandler {
 public:
  /// Everything given must outlive the executor, and the executor its last event: a task's end, a release time, a flow
  /// that the transport ends. The graph is changed only by add() and add_dependency() here. What an observer, a key or
  /// the transport throws leaves the engine's run; a run that goes on then ends with std::logic_error if tasks are left
  /// that were to be told of what was cut short.
  TaskExecutor(Engine& engine, TaskGraph& graph, Transport* transport = nullptr, TaskObserver* observer = nullptr);
  TaskExecutor(const TaskExecutor&) = delete;
  TaskExecutor& operator=(const TaskExecutor&) = delete;

  /// Begins at the engine's present time. Throws TaskCycle if tasks wait for each other, std::invalid_argument if there
  /// are flows but no transport, std::logic_error if called twice.
  void start();
  /// start() if need be, then runs the engine until no event is left. Throws std::logic_error if tasks are unfinished
  /// then, because a transport has not ended their flows.
  void run();

  /// Adds a task, also while running: predecessors that have finished count as satisfied. It is ready at the earliest
  /// at the present instant, with its next round of starts: after those of the round at hand if on_start adds it.
  /// Throws as TaskGraph::add does.
  TaskId add(const TaskSpec& spec);
  /// Adds a dependency, also while running; one on a finished task is satisfied. Throws as TaskGraph::add_dependency
  /// does, and std::logic_error if `after` has started. A cycle made this way throws TaskCycle from the engine's run
  /// once nothing else is left to do. Linear in the tasks waiting beside `after` if that was ready.
  void add_dependency(TaskId before, TaskId after);

  const TaskGraph& graph() const { return graph_; }
  /// Times of every task, by id; empty before start().
  std::span<const TaskRun> runs() const { return runs_; }
  const TaskRun& operator[](TaskId task) const { return runs_[task.index]; }
  /// When start() was called.
  Time origin() const { return origin_; }
  /// From the origin to the latest finish so far.
  Duration makespan() const { return last_finish_ - origin_; }
  /// Tasks that have not finished.
  std::size_t unfinished() const { return graph_.tasks() - finished_; }
  /// Tasks that have started and not finished.
  std::size_t running() const { return running_; }

 private:
  enum class Kind : std::uint8_t { finish, flow, release, begin, dispatch };

  void on_event(std::uint64_t payload) override;
  void schedule(Time time, Kind kind, std::uint32_t task);
  void begin_all();
  void became_ready(std::uint32_t task);
  void begin(std::uint32_t task);
  void finish(std::uint32_t task);
  void settle();
  void round();
  void conclude(bool defer);
  void check_stuck() const;
  /// Whether its successors have been told; while an observer hears of its end they have not.
  bool has_ended(TaskId task) const { return runs_[task.index].finish != kNever && task.index != finishing_; }

  static constexpr std::uint32_t kNone = ~0U;

  Engine& engine_;
  TaskGraph& graph_;
  Transport* transport_;
  TaskObserver* observer_;
  TaskRuns runs_;
  TaskDispatch dispatch_;
  Time origin_{};
  Time last_finish_{};
  std::uint32_t instant_ = 1;        // number of the last instant at which tasks ended
  std::uint32_t finishing_ = kNone;  // the task of whose end the observer is being told
  std::size_t finished_ = 0;
  std::size_t running_ = 0;
  std::size_t timers_ = 0;  // release times to come
  bool started_ = false;    // start() was called
  bool begun_ = false;      // and its event has come
  bool inside_ = false;     // an event is being handled
  bool round_scheduled_ = false;
  bool heard_ = false;                     // an event of ours has come since the round was put off
  std::vector<std::uint32_t> milestones_;  // ready tasks without demands, a heap: the lowest first
  std::vector<std::uint32_t> early_;       // flows that ended within Transport::start
  std::vector<std::uint32_t> added_;       // tasks added since the last round
};

}  // namespace orrery::sim
