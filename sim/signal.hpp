// A condition that processes wait for.
#pragma once

#include "sim/process.hpp"
#include "sim/resource.hpp"

namespace orrery::sim {

class Signal;

/// What Signal::wait() gives; await it at once.
class [[nodiscard]] SignalWait final : public Waiter {
 public:
  explicit SignalWait(Signal& signal) : signal_(&signal) {}
  SignalWait(SignalWait&&) = default;
  Engine& engine() const;
  bool await_ready() const;
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    begin_wait(handle.promise());
  }
  void await_resume() { resumed(); }
  void describe(std::string& out) const override;

 private:
  friend Signal;
  void begin_wait(PromiseBase& promise);
  Signal* signal_;  // null once the signal is gone
};

/// Off at first. While it is on nobody waits.
class Signal final : public Resource {
 public:
  Signal(Engine& engine, std::string name) : Resource(engine, std::move(name)) {}
  ~Signal();

  /// `co_await signal.wait()` waits until the signal is on. Who was woken goes on even if it is reset meanwhile, so
  /// set() and reset() together let go just those who wait now.
  SignalWait wait() { return SignalWait(*this); }
  /// Turns it on and wakes all who wait, in the order in which they came.
  void set();
  void reset() { on_ = false; }
  bool is_set() const { return on_; }

 private:
  friend SignalWait;
  bool on_ = false;
  List<SignalWait> waiters_;
};

}  // namespace orrery::sim
