#include "sim/engine.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/process.hpp"

namespace orrery::sim {

Engine::Engine(std::uint64_t seed, TickScale scale) : scale_(scale), seed_(seed) {}

// Ends the processes first: their frames hold awaiters that cancel events.
Engine::~Engine() {
  if (processes_) processes_->end_all();  // while processes() still finds them
  processes_.reset();
}

Processes& Engine::make_processes() {
  processes_ = std::make_unique<Processes>(*this);
  return *processes_;
}

void Engine::add_slot() {
  // The last slot stays unused, so that no event has the order that means none.
  if (slots_.size() >= EventQueue::kSlotMask) throw std::length_error("more than 2^24 - 1 events are pending");
  slots_.emplace_back();
  free_.reserve(slots_.capacity());  // all may be free at once: giving a slot back never allocates
  free_.push_back(static_cast<std::uint32_t>(slots_.size() - 1));
  queue_.set_slots(slots_.data(), sizeof(Slot));
}

void Engine::in_the_past() {
  throw std::logic_error("an event was scheduled in the past");
}

void Engine::after_the_end(Duration delay) const {
  (void)scale_.duration(scale_.seconds(now_) + scale_.seconds(delay));  // says which tick to set
  throw std::overflow_error("simulated time would end; set a coarser tick");
}

bool Engine::cancel(EventId id) {
  const auto index = static_cast<std::uint32_t>(id.order & EventQueue::kSlotMask);
  if (index >= slots_.size() || slots_[index].order != id.order) return false;
  slots_[index].order = kFree;
  free_.push_back(index);
  --live_;
  // Sweeping costs a pass over the queue and comes only after as many cancellations: constant per cancellation.
  if (queue_.size() > 2 * live_ + 1024) queue_.remove_if([this](std::uint64_t order) { return !is_live(order); });
  return true;
}

inline void Engine::fire(EventQueue::Top top) {
  Slot& slot = slots_[top.slot()];
  EventHandler* const handler = slot.handler;
  const std::uint64_t payload = slot.payload;
  slot.order = kFree;
  // The frame of a process is a cache miss or two: let the next one come while this event is handled.
  if (processes_) {
    const Slot& next = slots_[queue_.next_slot()];
    if (next.handler == processes_.get()) Processes::prefetch(next.payload);
  }
  queue_.pop();
  free_.push_back(top.slot());
  --live_;
  now_ = top.time;
  ++events_;
  handler->on_event(payload);  // may schedule, which may move the slots
}

bool Engine::step() {
  drop_cancelled();
  if (queue_.empty()) return false;
  fire(queue_.top());
  return true;
}

void Engine::run(Time until) {
  while (true) {
    drop_cancelled();
    if (queue_.empty()) {
      if (processes_) processes_->check_deadlock();
      return;
    }
    const EventQueue::Top top = queue_.top();
    if (top.time > until) {
      now_ = std::max(now_, until);
      return;
    }
    fire(top);
  }
}

}  // namespace orrery::sim
