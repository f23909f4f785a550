// What every coroutine of an engine has in common, and the table of its processes.
//
// One process runs at a time, and only from an event: whatever wakes another schedules an event, so equal times resume
// in the order of scheduling. Where a coroutine starts a child or ends, it hands the next one to a loop instead of
// calling it (symmetric transfer that does not depend on the compiler's tail calls), so no depth of children grows the
// stack. Groups inside groups do: each runs its branches nested in itself; a thousand deep is tested. A process is
// cancelled by destroying its frames, innermost first: destructors leave the wait lists, cancel the events and give
// back what was held.
#pragma once

#include <coroutine>
#include <cstdint>
#include <deque>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "sim/base/list.hpp"
#include "sim/engine.hpp"
#include "sim/frame_pool.hpp"

namespace orrery::sim {

class PromiseBase;
class ProcessHandle;
class Resource;  // sim/resource.hpp
class Waiter;    // sim/waiter.hpp
template <class T>
class Task;

/// Thrown by Engine::run() when no event is left while processes that are not daemons wait. The message has a line for
/// each of them: its name, what it waits for, and who holds that.
class Deadlock : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a suspended coroutine waits for.
class Blocker {
 public:
  /// Appends what is waited for, to follow "waits for ".
  virtual void describe(std::string& out) const = 0;
  /// The coroutine waited for, where it is one.
  virtual PromiseBase* child() const { return nullptr; }
  /// The child is being destroyed by another.
  virtual void disown() {}

 protected:
  ~Blocker() = default;
};

/// Told that a coroutine ended, in place of a coroutine that awaits it. May hand on by Processes::transfer().
class Completion {
 public:
  virtual void on_done(PromiseBase& ended) noexcept = 0;

 protected:
  ~Completion() = default;
};

/// A row of the table of processes; used again, under another generation.
struct ProcessRecord : ListNode {
  Processes* processes = nullptr;
  PromiseBase* root = nullptr;
  std::uint64_t generation = 0;
  EventId start;
  std::string name;
  List<Waiter> joiners;
  bool daemon = false;
  bool ending = false;  // its frames are being destroyed
};

namespace detail {

template <class First>
constexpr bool is_engine = std::is_same_v<First, Engine>;

/// The engine among the parameters of a coroutine: the first, or the second where a member function or a lambda has
/// its object before.
template <class... Args>
[[noreturn]] Engine& engine_of(Args&...) {
  static_assert(sizeof...(Args) == ~std::size_t{0},
                "a process takes `Engine&` as its first parameter (as a member function or a lambda, too)");
  std::terminate();
}
template <class... Rest>
Engine& engine_of(Engine& engine, Rest&...) {
  return engine;
}
template <class First, class... Rest>
requires(!is_engine<First>) Engine& engine_of(First&, Engine& engine, Rest&...) {
  return engine;
}

}  // namespace detail

/// The processes of an engine: starts, resumes and ends them.
class Processes final : public EventHandler {
 public:
  explicit Processes(Engine& engine);
  ~Processes() override;

  /// Starts `process` by an event at this instant. The name serves messages; it need not be unique. An exception that
  /// leaves the process comes out of Engine::run(). Throws std::logic_error for an empty task or another engine's.
  ProcessHandle spawn(std::string_view name, Task<void> process);
  /// The same for a process that may wait for ever without that being a deadlock.
  ProcessHandle spawn_daemon(std::string_view name, Task<void> process);
  /// Processes that did not end yet.
  std::size_t live() const { return live_; }
  const FramePool& frames() const { return *frames_; }
  Engine& engine() const { return engine_; }
  /// Throws Deadlock if a process that is no daemon is left.
  void check_deadlock() const;
  /// Ends every process, in the order of spawning.
  void end_all();

  // What follows serves those who write awaitables.

  /// The process whose code runs now; null inside plain handlers.
  ProcessRecord* running() const { return running_; }
  /// Resumes a suspended coroutine. Only from an event, as the last thing that it does: the process may destroy
  /// whatever it can reach.
  void resume(PromiseBase& promise);
  /// Runs a branch of the suspended running process until it waits or ended.
  void run_branch(PromiseBase& branch);
  /// `next` goes on as soon as the running coroutine has suspended.
  void transfer(PromiseBase& next) { next_ = &next; }
  void root_ended() { stop_ = Stop::ended; }
  bool cancel_requested() const { return stop_ == Stop::cancelled; }
  bool cancel(ProcessRecord& record);
  void on_event(std::uint64_t payload) override;
  static std::uint64_t payload(PromiseBase& promise) { return reinterpret_cast<std::uint64_t>(&promise); }
  /// Fetches the coroutine that an event will resume into the cache.
  static void prefetch(std::uint64_t payload) {
    const auto* const frame = reinterpret_cast<const char*>(payload);
    __builtin_prefetch(frame);
    __builtin_prefetch(frame + 64);
  }
  void* allocate_frame(std::size_t bytes);
  static void release_frame(void* block, std::size_t bytes) noexcept;
  void add(Resource& resource);

 private:
  enum class Stop : std::uint8_t { no, ended, cancelled };
  ProcessHandle start(std::string_view name, Task<void>&& process, bool daemon);
  void stop_running();
  void end(ProcessRecord& record);

  Engine& engine_;
  ProcessRecord* running_ = nullptr;
  PromiseBase* next_ = nullptr;
  Stop stop_ = Stop::no;
  FramePool* frames_;
  std::deque<ProcessRecord> records_;  // never moved nor removed: handles point at them
  List<ProcessRecord> active_;         // in the order of spawning
  List<ProcessRecord> free_;
  List<Resource> resources_;
  std::size_t live_ = 0;
};

/// State of every coroutine frame, whatever its result.
class PromiseBase {
 public:
  template <class... Args>
  explicit PromiseBase(Args&... args) : processes(&detail::engine_of(args...).processes()) {}
  PromiseBase(const PromiseBase&) = delete;
  PromiseBase& operator=(const PromiseBase&) = delete;

  /// Frames come from the pool of the engine among the coroutine's parameters.
  template <class... Args>
  static void* operator new(std::size_t bytes, Args&... args) {
    return detail::engine_of(args...).processes().allocate_frame(bytes);
  }
  static void operator delete(void* block, std::size_t bytes) noexcept { Processes::release_frame(block, bytes); }

  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> handle) const noexcept {
      handle.promise().ended();
    }
    void await_resume() const noexcept {}
  };
  std::suspend_always initial_suspend() const noexcept { return {}; }
  FinalAwaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { exception = std::current_exception(); }

  /// Whoever is to go on when this coroutine ends: the one that awaits it, or an object that counts.
  void set_parent(PromiseBase& parent) {
    continuation_ = reinterpret_cast<std::uintptr_t>(&parent);
    record = parent.record;
  }
  void set_completion(Completion& completion, PromiseBase& parent) {
    continuation_ = reinterpret_cast<std::uintptr_t>(&completion) | kCompletion;
    record = parent.record;
  }
  /// Appends what this coroutine, or the innermost of its children, waits for.
  void describe(std::string& out) const;
  /// Destroys this suspended coroutine and the children that it awaits, innermost first, whatever their depth.
  void destroy() {
    if (blocked != nullptr) destroy_children();
    self.destroy();
  }

  Processes* processes;
  ProcessRecord* record = nullptr;  // process that this coroutine is part of; null until it starts
  Blocker* blocked = nullptr;       // what it waits for; null while it runs, and during a delay
  std::coroutine_handle<> self;
  std::exception_ptr exception;

 private:
  static constexpr std::uintptr_t kCompletion = 1;  // marks a Completion among the continuations
  void ended() noexcept {
    if (continuation_ == 0) return processes->root_ended();
    if ((continuation_ & kCompletion) != 0)
      return reinterpret_cast<Completion*>(continuation_ - kCompletion)->on_done(*this);
    processes->transfer(*parent());
  }
  PromiseBase* parent() const { return reinterpret_cast<PromiseBase*>(continuation_); }
  void destroy_children();

  std::uintptr_t continuation_ = 0;
};

inline void* Processes::allocate_frame(std::size_t bytes) {
  // The pool's address stands behind the frame: deletion knows nothing but the block.
  const std::size_t at = (bytes + alignof(FramePool*) - 1) / alignof(FramePool*) * alignof(FramePool*);
  void* const block = frames_->allocate(at + sizeof(FramePool*));
  ::new (static_cast<std::byte*>(block) + at) FramePool*(frames_);
  return block;
}

inline void Processes::release_frame(void* block, std::size_t bytes) noexcept {
  const std::size_t at = (bytes + alignof(FramePool*) - 1) / alignof(FramePool*) * alignof(FramePool*);
  FramePool* const pool = *reinterpret_cast<FramePool**>(static_cast<std::byte*>(block) + at);
  pool->release(block, at + sizeof(FramePool*));
}

inline void Processes::resume(PromiseBase& promise) {
  running_ = promise.record;
  promise.self.resume();
  while (next_ != nullptr && stop_ == Stop::no) std::exchange(next_, nullptr)->self.resume();
  if (stop_ != Stop::no) return stop_running();
  running_ = nullptr;
}

inline void Processes::on_event(std::uint64_t payload) {
  resume(*reinterpret_cast<PromiseBase*>(payload));
}

}  // namespace orrery::sim
