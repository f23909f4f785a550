#include "sim/signal.hpp"

#include <stdexcept>

namespace orrery::sim {

Engine& SignalWait::engine() const {
  return signal_->engine();
}

bool SignalWait::await_ready() const {
  return signal_->on_;
}

void SignalWait::begin_wait(PromiseBase& promise) {
  suspend(promise);
  signal_->waiters_.push_back(*this);
}

void SignalWait::describe(std::string& out) const {
  if (signal_ == nullptr) {
    out += "a signal that is gone";
    return;
  }
  out += "signal ";
  append_quoted(out, signal_->name());
}

Signal::~Signal() {
  while (SignalWait* const waiter = waiters_.first()) {
    waiter->unlink();
    waiter->signal_ = nullptr;
  }
}

void Signal::set() {
  on_ = true;
  while (SignalWait* const waiter = waiters_.first()) {
    waiter->unlink();
    waiter->wake();
  }
}

}  // namespace orrery::sim
