// Task<T>: a coroutine that gives a T when it is awaited.
//
// Lazy: it starts when awaited (or spawned), and belongs to whoever holds the Task; destroying the Task destroys it.
#pragma once

#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "sim/processes.hpp"

namespace orrery::sim {

namespace detail {

template <class T>
class TaskPromise : public PromiseBase {
 public:
  using PromiseBase::PromiseBase;
  Task<T> get_return_object();
  template <class U>
  requires std::is_constructible_v<T, U&&>
  void return_value(U&& value) { value_.emplace(std::forward<U>(value)); }
  T take() {
    if (exception) std::rethrow_exception(exception);
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class TaskPromise<void> : public PromiseBase {
 public:
  using PromiseBase::PromiseBase;
  Task<void> get_return_object();
  void return_void() const {}
  void take() const {
    if (exception) std::rethrow_exception(exception);
  }
};

/// Waits inside the frame of the parent; owns the child.
template <class T>
class [[nodiscard]] TaskAwaiter final : public Blocker {
 public:
  explicit TaskAwaiter(TaskPromise<T>* child) : child_(child) {}
  TaskAwaiter(const TaskAwaiter&) = delete;
  TaskAwaiter& operator=(const TaskAwaiter&) = delete;
  ~TaskAwaiter() {
    if (child_ != nullptr) child_->destroy();
  }
  bool await_ready() const {
    if (child_ == nullptr) throw std::logic_error("a task was awaited that is empty, or was awaited before");
    return false;
  }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    PromiseBase& parent = handle.promise();
    parent_ = &parent;
    parent.blocked = this;
    child_->set_parent(parent);
    parent.processes->transfer(*child_);
  }
  T await_resume() {
    parent_->blocked = nullptr;
    return child_->take();
  }
  void describe(std::string& out) const override { child_->describe(out); }
  PromiseBase* child() const override { return child_; }
  void disown() override { child_ = nullptr; }

 private:
  TaskPromise<T>* child_;
  PromiseBase* parent_ = nullptr;
};

}  // namespace detail

/// A coroutine that takes Engine& as its first parameter and `co_return`s a T. `co_await task` starts it and gives its
/// value; an exception that leaves it comes out there. Await it once; move-only.
template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::TaskPromise<T>;
  using value_type = T;

  Task() = default;
  explicit Task(promise_type& promise) : promise_(&promise) {}
  Task(Task&& other) noexcept : promise_(std::exchange(other.promise_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) reset();
    promise_ = std::exchange(other.promise_, nullptr);
    return *this;
  }
  ~Task() { reset(); }

  bool empty() const { return promise_ == nullptr; }
  detail::TaskAwaiter<T> operator co_await() && { return detail::TaskAwaiter<T>(std::exchange(promise_, nullptr)); }
  /// The coroutine, for those who start it themselves.
  promise_type* promise() const { return promise_; }
  promise_type* release() { return std::exchange(promise_, nullptr); }

 private:
  void reset() {
    if (promise_ != nullptr) std::exchange(promise_, nullptr)->destroy();
  }

  promise_type* promise_ = nullptr;
};

/// What Processes::spawn() takes.
using Process = Task<void>;

template <class T>
Task<T> detail::TaskPromise<T>::get_return_object() {
  self = std::coroutine_handle<TaskPromise>::from_promise(*this);
  return Task<T>(*this);
}
inline Task<void> detail::TaskPromise<void>::get_return_object() {
  self = std::coroutine_handle<TaskPromise>::from_promise(*this);
  return Task<void>(*this);
}

}  // namespace orrery::sim
