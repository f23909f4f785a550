// Base of the awaitables that stand in a list until somebody wakes them.
#pragma once

#include "sim/processes.hpp"

namespace orrery::sim {

/// One suspended coroutine. It may move until it is awaited; from then on it stays in the frame that awaits it. When
/// that frame is destroyed it leaves its list and cancels its event; what it was granted is the derived class's to give
/// back.
class Waiter : public Blocker, public ListNode {
 public:
  /// Ends the wait: the coroutine goes on by an event at this instant. The waiter is then granted.
  void wake() {
    Engine& engine = promise_->processes->engine();
    event_ = engine.schedule_at(engine.now(), *promise_->processes, Processes::payload(*promise_));
    granted_ = true;
  }

 protected:
  Waiter() = default;
  Waiter(Waiter&&) noexcept : Waiter() {}
  ~Waiter() {
    if (promise_ == nullptr) return;
    promise_->blocked = nullptr;
    if (granted_) promise_->processes->engine().cancel(event_);
  }

  void suspend(PromiseBase& promise) {
    promise_ = &promise;
    promise.blocked = this;
  }
  /// Must be called by await_resume(): the wait is over, whether or not there was one.
  void resumed() {
    unlink();
    granted_ = false;
    if (promise_ != nullptr) std::exchange(promise_, nullptr)->blocked = nullptr;
  }
  bool granted() const { return granted_; }
  PromiseBase* promise() const { return promise_; }

 private:
  PromiseBase* promise_ = nullptr;
  EventId event_;
  bool granted_ = false;
};

}  // namespace orrery::sim
