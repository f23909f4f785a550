#include "sim/task/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

namespace orrery::sim {

namespace {
constexpr int kKindShift = 32;  // payload of an event: kind above, task below
constexpr std::uint64_t payload_of(std::uint64_t kind, std::uint32_t task) {
  return kind << kKindShift | task;
}

void push_least(std::vector<std::uint32_t>& heap, std::uint32_t task) {
  heap.push_back(task);
  std::push_heap(heap.begin(), heap.end(), std::greater<>());
}

std::uint32_t pop_least(std::vector<std::uint32_t>& heap) {
  std::pop_heap(heap.begin(), heap.end(), std::greater<>());
  const std::uint32_t task = heap.back();
  heap.pop_back();
  return task;
}
/// Set for a scope, also one that is left by an exception.
class Within {
 public:
  explicit Within(bool& flag) : flag_(flag) { flag_ = true; }
  ~Within() { flag_ = false; }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  bool& flag_;
};

[[noreturn]] void throw_changed() {
  throw std::logic_error("task executor: the graph was changed behind its back");
}
}  // namespace

TaskExecutor::TaskExecutor(Engine& engine, TaskGraph& graph, Transport* transport, TaskObserver* observer)
    : engine_(engine), graph_(graph), transport_(transport), observer_(observer), dispatch_(graph, runs_) {}

void TaskExecutor::schedule(Time time, Kind kind, std::uint32_t task) {
  engine_.schedule_at(time, *this, payload_of(static_cast<std::uint64_t>(kind), task));
}

void TaskExecutor::start() {
  if (started_) throw std::logic_error("task executor: started twice");
  if (graph_.has_flows() && transport_ == nullptr)
    throw std::invalid_argument("task executor: the graph has flows, but there is no transport");
  if (graph_.may_have_cycle()) graph_.check_cycles();
  started_ = true;
  runs_.resize(graph_.tasks());
  origin_ = last_finish_ = engine_.now();
  schedule(origin_, Kind::begin, 0);
}

void TaskExecutor::run() {
  if (!started_) start();
  engine_.run();
  if (unfinished() == 0) return;
  const auto at = std::find_if(runs_.begin(), runs_.end(), [](const TaskRun& run) { return run.finish == kNever; });
  throw std::logic_error(fmt::format("task executor: {} tasks have not finished, the first is {}", unfinished(),
                                     graph_.describe(TaskId{static_cast<std::uint32_t>(at - runs_.begin())})));
}

void TaskExecutor::on_event(std::uint64_t payload) {
  const auto task = static_cast<std::uint32_t>(payload);
  const auto kind = static_cast<Kind>(payload >> kKindShift);
  if (inside_) {  // only a transport, from within start()
    push_least(early_, task);
    return;
  }
  const Within within(inside_);
  switch (kind) {
    case Kind::flow:
    case Kind::finish:
      finish(task);
      break;
    case Kind::release:
      --timers_;
      if (--runs_[task].waits == 0) became_ready(task);
      break;
    case Kind::begin:
      begin_all();
      break;
    case Kind::dispatch:
      round_scheduled_ = false;
      break;
  }
  settle();
  if (kind == Kind::dispatch) {
    // A round that waited in vain waits no more: two who let each other go first would never go.
    if (!heard_ && (dispatch_.pending() || !added_.empty())) round();
  } else {
    heard_ = true;
  }
  // A transport may end several flows of an instant from one event: the round waits until all are in.
  conclude(kind == Kind::flow);
}

/// Starts what can start, unless more is due at this instant.
void TaskExecutor::conclude(bool defer) {
  while (dispatch_.pending() || !added_.empty()) {
    if (round_scheduled_) return;
    if (defer || engine_.more_now()) {
      round_scheduled_ = true;
      heard_ = false;
      schedule(engine_.now(), Kind::dispatch, 0);
      return;
    }
    round();
  }
  if (running_ == 0 && timers_ == 0) check_stuck();
}

void TaskExecutor::round() {
  // By index: observers add more from within.
  for (std::size_t i = 0; i < added_.size(); ++i)
    if (--runs_[added_[i]].waits == 0) became_ready(added_[i]);
  added_.clear();
  settle();
  for (std::uint32_t task = dispatch_.next(); task != TaskDispatch::kNone; task = dispatch_.next()) begin(task);
  settle();
}

void TaskExecutor::begin_all() {
  begun_ = true;
  const std::size_t tasks = graph_.tasks();
  if (runs_.size() != tasks) throw_changed();
  dispatch_.extend();
  for (std::uint32_t task = 0; task < tasks; ++task) runs_[task].waits = graph_.predecessors({task});
  for (std::uint32_t task = 0; task < tasks; ++task)
    if (runs_[task].waits == 0) became_ready(task);
}

/// Nothing is left to wait for but the release time.
void TaskExecutor::became_ready(std::uint32_t task) {
  const Time now = engine_.now();
  const Time release = graph_.release({task});
  if (release > now) {
    runs_[task].waits = 1;
    ++timers_;
    schedule(release, Kind::release, task);
    return;
  }
  runs_[task].ready = now;
  if (last_finish_ != now || runs_[task].instant != instant_) runs_[task].cause = 0;  // its release time was the last
  if (graph_.demand_set_of({task}) != 0) {
    dispatch_.ready(task);
  } else {
    push_least(milestones_, task);
  }
}

void TaskExecutor::begin(std::uint32_t task) {
  runs_[task].start = engine_.now();
  ++running_;
  if (observer_ != nullptr) observer_->on_start({task}, engine_.now());
  if (graph_.is_flow({task})) {
    const FlowSpec flow = graph_.flow({task});
    transport_->start({task}, flow, *this, payload_of(static_cast<std::uint64_t>(Kind::flow), task));
    return;
  }
  const Duration duration = graph_.duration({task});
  if (duration.ticks == 0 && graph_.demand_set_of({task}) == 0) {
    push_least(early_, task);
  } else {
    engine_.schedule_in(duration, *this, task);
  }
}

void TaskExecutor::finish(std::uint32_t task) {
  if (runs_[task].finish != kNever)
    throw std::logic_error("task executor: the transport ended the flow of " + graph_.describe(TaskId{task}) +
                           " twice");
  const Time now = engine_.now();
  if (last_finish_ != now) ++instant_;
  runs_[task].finish = last_finish_ = now;
  --running_;
  ++finished_;
  dispatch_.release(task);
  if (observer_ != nullptr) {
    finishing_ = task;
    observer_->on_finish({task}, now);
    finishing_ = kNone;
  }
  const auto demands = graph_.demands({task});
  const std::uint32_t cause = demands.empty() ? 0 : demands.front().resource.index + 1;
  graph_.for_each_successor({task}, [this, cause](TaskId after) {
    TaskRun& run = runs_[after.index];
    run.cause = run.instant == instant_ ? std::max(run.cause, cause) : cause;
    run.instant = instant_;
    if (--run.waits == 0) became_ready(after.index);
  });
}

/// Tasks without demands start, and what took no time ends, until nothing more comes of it.
void TaskExecutor::settle() {
  while (true) {
    // The least id first, so that nothing depends on the order of dependencies.
    if (!early_.empty()) {
      finish(pop_least(early_));
    } else if (!milestones_.empty()) {
      const std::uint32_t task = pop_least(milestones_);
      if (runs_[task].ready != kNever && runs_[task].start == kNever) begin(task);
    } else {
      return;
    }
  }
}

TaskId TaskExecutor::add(const TaskSpec& spec) {
  if (started_ && spec.flow && transport_ == nullptr)
    throw std::invalid_argument("task executor: a flow was added, but there is no transport");
  const TaskId id = graph_.add(spec);
  if (!started_) return id;
  if (runs_.size() != id.index) throw_changed();
  std::uint32_t& waits = runs_.emplace_back().waits;
  if (!begun_) return id;
  waits = 1;  // for the round in which it is admitted
  for (const TaskId before : spec.after)
    if (!has_ended(before)) ++waits;
  dispatch_.extend();
  added_.push_back(id.index);
  if (!inside_) conclude(true);
  return id;
}

void TaskExecutor::add_dependency(TaskId before, TaskId after) {
  if (begun_ && after.index < runs_.size() && runs_[after.index].start != kNever)
    throw std::logic_error(fmt::format("task executor: {} has started, and cannot be made to wait for {}",
                                       graph_.describe(after), graph_.describe(before)));
  graph_.add_dependency(before, after);
  if (!begun_ || has_ended(before)) return;
  TaskRun& run = runs_[after.index];
  if (run.ready != kNever) {
    run.ready = kNever;
    if (graph_.demand_set_of(after) != 0) dispatch_.withdraw(after.index);
  }
  ++run.waits;
}

/// With nothing running and nothing to come, whatever is unfinished waits for itself.
void TaskExecutor::check_stuck() const {
  if (unfinished() == 0) return;
  graph_.check_cycles();
  throw std::logic_error("task executor: nothing can start, and yet nothing waits for itself");
}

}  // namespace orrery::sim
