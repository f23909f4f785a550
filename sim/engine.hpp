// The event engine: a clock, a queue, and handlers.
//
// Events are ordered by (time, sequence), the sequence being given when an event is scheduled: equal times fire in the
// order of scheduling, so a run is the same on every host. The queue key is 16 bytes (time 64 bits, sequence 40, slot
// 24); what an event does lives in a slab of slots that are used again, so a steady state allocates nothing. A
// cancelled event stays in the queue and is dropped when it comes up (its slot's generation has moved on).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/base/units.hpp"

namespace orrery::sim {

/// Whatever events are delivered to. `payload` is what was given to schedule(): an index, a kind, both packed.
class EventHandler {
 public:
  virtual ~EventHandler() = default;
  virtual void on_event(std::uint64_t payload) = 0;
};

/// Names a scheduled event; stale once it fired or was cancelled.
struct EventId {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
};

/// Pending events, the earliest first. Pure: knows no clock and no handlers. 4-ary heap of integer keys.
class EventQueue {
 public:
  static constexpr std::uint64_t kSlotBits = 24;
  static constexpr std::uint64_t kSequenceBits = 40;

  struct Top {
    Time time;
    std::uint32_t slot;
  };

  /// `first_sequence` > 0 serves tests of the end of the range.
  explicit EventQueue(std::uint64_t first_sequence = 0) : next_sequence_(first_sequence) {}
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  /// Throws std::length_error when 2^40 events have been scheduled: neither part of a key wraps in silence.
  void push(Time time, std::uint32_t slot);
  Top top() const {
    return {Time{static_cast<std::int64_t>(heap_[0].time)},
            static_cast<std::uint32_t>(heap_[0].order & ((1U << kSlotBits) - 1))};
  }
  void pop();

 private:
  struct Key {
    std::uint64_t time;
    std::uint64_t order;  // sequence << 24 | slot
    bool before(const Key& other) const { return time < other.time || (time == other.time && order < other.order); }
  };
  std::vector<Key> heap_;
  std::uint64_t next_sequence_;
};

class Engine {
 public:
  explicit Engine(std::uint64_t seed = 1, TickScale scale = TickScale{1}) : scale_(scale), seed_(seed) {}

  Time now() const { return now_; }
  const TickScale& scale() const { return scale_; }
  /// The random stream of that name for this run's seed: call once, keep the stream.
  RandomStream stream(std::string_view name) const { return RandomStream(seed_, name); }

  /// Delivers `payload` to `handler` at `time` (>= now; else std::logic_error). The handler must outlive the event.
  EventId schedule_at(Time time, EventHandler& handler, std::uint64_t payload = 0);
  /// The same after `delay` (>= 0). Throws std::overflow_error that names the coarser tick to set where time would end.
  EventId schedule_in(Duration delay, EventHandler& handler, std::uint64_t payload = 0);
  /// Whether another event is due at this very instant.
  bool more_now() {
    drop_cancelled();
    return !queue_.empty() && queue_.top().time == now_;
  }
  /// True if the event was still pending.
  bool cancel(EventId id);

  /// Fires the earliest event; false when none is left.
  bool step();
  /// Fires events until none is left, or until the next one is later than `until` (the clock then stands at `until`).
  void run(Time until = kNever);
  std::uint64_t events() const { return events_; }
  std::size_t pending() const { return live_; }

 private:
  struct Slot {
    EventHandler* handler = nullptr;
    std::uint64_t payload = 0;
    std::uint32_t generation = 0;
    bool live = false;
  };
  void drop_cancelled();

  TickScale scale_;
  std::uint64_t seed_;
  Time now_;
  EventQueue queue_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::size_t live_ = 0;
  std::uint64_t events_ = 0;
};

}  // namespace orrery::sim
