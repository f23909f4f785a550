// The event engine: a clock, a queue, and handlers.
//
// Events are ordered by (time, rank, sequence). The sequence is given when an event is scheduled, so equal times fire
// in the order of scheduling and a run is the same on every host. Where that order would be an accident (of an event
// that was cancelled and scheduled again, say), a rank tells whose turn it is. What an event does lies in a slab of
// slots that are used again, so a steady state allocates nothing. A cancelled event frees its slot at once. Its key
// stays queued until it comes up, or until half of the queue is such keys and they are swept out.
//
// Behaviour can be written in two ways, which mix freely: handlers (here) are fast, processes (sim/process.hpp) are
// easy to read.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/base/units.hpp"
#include "sim/event_queue.hpp"

namespace orrery::sim {

class Delay;      // sim/process.hpp
class Processes;  // sim/process.hpp

/// Whatever events are delivered to. `payload` is what was given to schedule(): an index, a kind, both packed.
class EventHandler {
 public:
  virtual ~EventHandler() = default;
  virtual void on_event(std::uint64_t payload) = 0;
};

/// Names a scheduled event for ever: stale once it fired or was cancelled, and never given to another.
struct EventId {
  std::uint64_t order = ~0ULL;
};

class Engine {
 public:
  explicit Engine(std::uint64_t seed = 1, TickScale scale = TickScale{1});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Time now() const { return now_; }
  const TickScale& scale() const { return scale_; }
  /// The random stream of that name for this run's seed: call once, keep the stream.
  RandomStream stream(std::string_view name) const { return RandomStream(seed_, name); }

  /// Delivers `payload` to `handler` at `time` (>= now; else std::logic_error). The handler must outlive the event.
  /// Throws std::length_error past 2^24 - 1 pending or 2^38 scheduled events.
  EventId schedule_at(Time time, EventHandler& handler, std::uint64_t payload = 0, Rank rank = Rank::usual) {
    if (time < now_) in_the_past();
    if (free_.empty()) add_slot();
    const std::uint32_t index = free_.back();
    const std::uint64_t order = queue_.push(time, index, rank);
    free_.pop_back();  // not before the push: it may throw
    slots_[index] = {&handler, payload, order};
    ++live_;
    return {order};
  }
  /// The same after `delay` (>= 0). Throws std::overflow_error that names the coarser tick to set where time would end.
  EventId schedule_in(Duration delay, EventHandler& handler, std::uint64_t payload = 0, Rank rank = Rank::usual) {
    expect_time_for(delay);
    return schedule_at(now_ + delay, handler, payload, rank);
  }
  /// Whether time goes on for `delay`.
  bool has_time_for(Duration delay) const { return delay.ticks <= kNever.ticks - now_.ticks; }
  /// Throws as schedule_in() does if it does not.
  void expect_time_for(Duration delay) const {
    if (!has_time_for(delay)) after_the_end(delay);
  }
  /// Whether another event is due at this very instant, of this rank or one before it.
  bool more_now(Rank upto = Rank::late) {
    drop_cancelled();
    if (queue_.empty()) return false;
    const EventQueue::Top next = queue_.top();
    return next.time == now_ && next.rank() <= upto;
  }
  /// True if the event was still pending. Amortised constant time.
  bool cancel(EventId id);

  /// Suspends a process for `delay`: `co_await engine.delay(d)`. Include sim/process.hpp.
  Delay delay(Duration delay);
  /// The processes of this engine (made on first use).
  Processes& processes() { return processes_ ? *processes_ : make_processes(); }

  /// Fires the earliest event; false when none is left.
  bool step();
  /// Fires events until none is left (the clock then stands at the last one, also before `until`), or until the next
  /// one is later than `until` (the clock then stands at `until`). Throws Deadlock (sim/process.hpp) if no event is
  /// left while processes still wait for something.
  void run(Time until = kNever);
  std::uint64_t events() const { return events_; }
  std::size_t pending() const { return live_; }
  /// Keys in the queue, cancelled ones included: what memory depends on.
  std::size_t queued() const { return queue_.size(); }

 private:
  static constexpr std::uint64_t kFree = ~0ULL;
  struct alignas(32) Slot {
    EventHandler* handler = nullptr;
    std::uint64_t payload = 0;
    std::uint64_t order = kFree;  // of the event that holds the slot
  };
  bool is_live(std::uint64_t order) const { return slots_[order & EventQueue::kSlotMask].order == order; }
  void drop_cancelled() {
    while (!queue_.empty() && !is_live(queue_.top().order)) queue_.pop();
  }
  void add_slot();
  [[noreturn]] static void in_the_past();
  [[noreturn]] void after_the_end(Duration delay) const;
  Processes& make_processes();
  void fire(EventQueue::Top top);

  TickScale scale_;
  std::uint64_t seed_;
  Time now_;
  EventQueue queue_;
  std::vector<Slot, PageAllocator<Slot>> slots_;
  std::vector<std::uint32_t> free_;
  std::size_t live_ = 0;
  std::uint64_t events_ = 0;
  std::unique_ptr<Processes> processes_;
};

}  // namespace orrery::sim
