#include "sim/event_queue.hpp"

#include <stdexcept>

#include "sim/base/branchless.hpp"

namespace orrery::sim {
EventQueue::EventQueue(std::uint64_t first_sequence) : keys_(64, kVacant), next_sequence_(first_sequence) {}

void EventQueue::grow() {
  keys_.resize(keys_.size() * 2, kVacant);
}

void EventQueue::sift_up(std::size_t i, Key key) {
  while (i != kRoot) {
    const std::size_t up = parent(i);
    if (number(key) > number(keys_[up])) break;
    keys_[i] = keys_[up];
    i = up;
  }
  keys_[i] = key;
}

void EventQueue::sift_down(std::size_t i, Key key) {
  Key* const keys = keys_.data();
  const std::size_t end = kRoot + size_;
  const Number own = number(key);
  for (std::size_t c = first_child(i); c < end; c = first_child(i)) {
    const std::size_t below = first_child(c);
    if (below < end)
      for (std::size_t k = 0; k < 16; k += 4) __builtin_prefetch(keys + below + k);
    // The least of four; values travel in registers, as loading the winner again would wait for its place.
    const Number a = number(keys[c]), b = number(keys[c + 1]), d = number(keys[c + 2]), e = number(keys[c + 3]);
    const bool second = b < a, fourth = e < d;
    const std::size_t in_left = opaque(second ? 1 : 0), in_right = 2 + opaque(fourth ? 1 : 0);
    const Number left = second ? b : a, right = fourth ? e : d;
    const bool other = right < left;
    const std::size_t in_least = in_left ^ ((in_left ^ in_right) & (0 - opaque(other ? 1 : 0)));
    const Number least = other ? right : left;
    if (own < least) break;
    keys[i] = {static_cast<std::uint64_t>(least), static_cast<std::uint64_t>(least >> 64)};
    if (i >= kNear && i < kFar) __builtin_prefetch(slots_ + (keys[i].order & kSlotMask) * stride_, 1);
    i = c + in_least;
  }
  keys[i] = key;
}

std::uint32_t EventQueue::next_slot() const {
  // The root's children; vacant places hold the largest key.
  const Key* least = &keys_[kRoot + 1];
  for (std::size_t k = 2; k <= 4; ++k) least = number(keys_[kRoot + k]) < number(*least) ? &keys_[kRoot + k] : least;
  return static_cast<std::uint32_t>((size_ > 1 ? *least : keys_[kRoot]).order & kSlotMask);
}

void EventQueue::exhausted() {
  throw std::length_error("event queue: 2^38 events have been scheduled");
}

void EventQueue::close_hole() {
  hole_ = false;
  const std::size_t end = kRoot + --size_;
  const Key last = keys_[end];
  keys_[end] = kVacant;
  if (size_ > 0) sift_down(kRoot, last);
}

}  // namespace orrery::sim
