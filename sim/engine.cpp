#include "sim/engine.hpp"

#include <algorithm>
#include <stdexcept>

namespace orrery::sim {

void EventQueue::push(Time time, std::uint32_t slot) {
  if (next_sequence_ >= (1ULL << kSequenceBits))
    throw std::length_error("event queue: 2^40 events have been scheduled");
  const Key key{static_cast<std::uint64_t>(time.ticks), (next_sequence_++ << kSlotBits) | slot};
  std::size_t i = heap_.size();
  heap_.push_back(key);
  while (i > 0) {
    const std::size_t parent = (i - 1) / 4;
    if (!key.before(heap_[parent])) break;
    heap_[i] = heap_[parent];
    i = parent;
  }
  heap_[i] = key;
}

void EventQueue::pop() {
  const Key key = heap_.back();
  heap_.pop_back();
  const std::size_t n = heap_.size();
  if (n == 0) return;
  std::size_t i = 0;
  while (true) {
    const std::size_t first = 4 * i + 1;
    if (first >= n) break;
    std::size_t best = first;
    const std::size_t last = std::min(first + 4, n);
    for (std::size_t c = first + 1; c < last; ++c) best = heap_[c].before(heap_[best]) ? c : best;
    if (!heap_[best].before(key)) break;
    heap_[i] = heap_[best];
    i = best;
  }
  heap_[i] = key;
}

EventId Engine::schedule_at(Time time, EventHandler& handler, std::uint64_t payload) {
  if (time < now_) throw std::logic_error("an event was scheduled in the past");
  std::uint32_t index = 0;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    if (slots_.size() >= (1ULL << EventQueue::kSlotBits)) throw std::length_error("more than 2^24 events are pending");
    index = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  }
  Slot& slot = slots_[index];
  slot.handler = &handler;
  slot.payload = payload;
  slot.live = true;
  ++live_;
  queue_.push(time, index);
  return {index, slot.generation};
}

EventId Engine::schedule_in(Duration delay, EventHandler& handler, std::uint64_t payload) {
  if (delay.ticks > kNever.ticks - now_.ticks) (void)scale_.duration(scale_.seconds(now_) + scale_.seconds(delay));
  return schedule_at(now_ + delay, handler, payload);
}

bool Engine::cancel(EventId id) {
  if (id.slot >= slots_.size()) return false;
  Slot& slot = slots_[id.slot];
  if (!slot.live || slot.generation != id.generation) return false;
  slot.live = false;  // the key stays queued; the slot is freed when it comes up
  ++slot.generation;
  --live_;
  return true;
}

void Engine::drop_cancelled() {
  while (!queue_.empty()) {
    const std::uint32_t index = queue_.top().slot;
    if (slots_[index].live) return;
    queue_.pop();
    free_.push_back(index);
  }
}

bool Engine::step() {
  drop_cancelled();
  if (queue_.empty()) return false;
  const EventQueue::Top top = queue_.top();
  queue_.pop();
  Slot& slot = slots_[top.slot];
  EventHandler* const handler = slot.handler;
  const std::uint64_t payload = slot.payload;
  slot.live = false;
  ++slot.generation;
  --live_;
  free_.push_back(top.slot);
  now_ = top.time;
  ++events_;
  handler->on_event(payload);  // may schedule, which may move the slots
  return true;
}

void Engine::run(Time until) {
  while (true) {
    drop_cancelled();
    if (queue_.empty()) return;
    if (queue_.top().time > until) {
      now_ = std::max(now_, until);
      return;
    }
    step();
  }
}

}  // namespace orrery::sim
