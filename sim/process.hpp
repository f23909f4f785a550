// Processes: behaviour written as coroutines (docs/explain/processes.md).
//
//   Process client(Engine& engine, Server& gpu) {
//     co_await engine.delay(Duration{5});
//     co_await gpu.use(Duration{10});
//   }
//   engine.processes().spawn("client", client(engine, gpu));
//
// Include this for tasks, delays and handles; sim/resources.hpp for what processes share; sim/when.hpp to wait for
// several things at once.
#pragma once

#include "sim/task.hpp"
#include "sim/waiter.hpp"

namespace orrery::sim {

/// `co_await engine.delay(d)`: the rest runs `d` later, by an event. Throws as Engine::schedule_in() does.
class [[nodiscard]] Delay {
 public:
  Delay(Engine& engine, Duration delay) : engine_(engine), delay_(delay) {}
  Delay(Delay&& other) noexcept : engine_(other.engine_), delay_(other.delay_) {}
  ~Delay() {
    if (event_.order != EventId{}.order) engine_.cancel(event_);
  }
  Engine& engine() const { return engine_; }
  bool await_ready() const { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    PromiseBase& promise = handle.promise();
    event_ = engine_.schedule_in(delay_, *promise.processes, Processes::payload(promise));
  }
  void await_resume() { event_ = {}; }

 private:
  Engine& engine_;
  Duration delay_;
  EventId event_;
};

inline Delay Engine::delay(Duration delay) {
  return {*this, delay};
}

/// Waits for the end of a process.
class [[nodiscard]] Join final : public Waiter {
 public:
  Join(ProcessRecord* record, std::uint64_t generation) : record_(record), generation_(generation) {}
  Join(Join&&) noexcept = default;
  /// Throws std::logic_error for a handle that was never a process's.
  Engine& engine() const;
  bool await_ready() const { return record_ == nullptr || record_->generation != generation_; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    suspend(handle.promise());
    record_->joiners.push_back(*this);
  }
  void await_resume() { resumed(); }
  void describe(std::string& out) const override;

 private:
  ProcessRecord* record_;
  std::uint64_t generation_;
};

/// Names a process, for ever: one that ended is done, whatever took its place. Copy freely; not to be used after the
/// engine is gone.
class ProcessHandle {
 public:
  ProcessHandle() = default;
  explicit ProcessHandle(ProcessRecord& record) : record_(&record), generation_(record.generation) {}
  /// Whether it ended: returned, failed or cancelled.
  bool done() const { return record_ == nullptr || record_->generation != generation_; }
  /// Ends the process by destroying its frames; false if it was done. A process that runs right now (one that cancels
  /// itself) ends when it next waits.
  bool cancel() const { return !done() && record_->processes->cancel(*record_); }
  /// `co_await handle.join()` waits until the process is done.
  Join join() const { return {record_, generation_}; }

 private:
  ProcessRecord* record_ = nullptr;
  std::uint64_t generation_ = 0;
};

}  // namespace orrery::sim
