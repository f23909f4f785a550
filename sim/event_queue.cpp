#include "sim/event_queue.hpp"

#include <stdexcept>

namespace orrery::sim {

EventQueue::EventQueue(std::uint64_t first_sequence) : keys_(64, kVacant), next_sequence_(first_sequence) {}

void EventQueue::grow() {
  keys_.resize(keys_.size() * 2, kVacant);
}

void EventQueue::sift_up(std::size_t i, Key key) {
  while (i != kRoot) {
    const std::size_t up = parent(i);
    if (!before(key, keys_[up])) break;
    keys_[i] = keys_[up];
    i = up;
  }
  keys_[i] = key;
}

void EventQueue::sift_down(std::size_t i, Key key) {
  const std::size_t end = kRoot + size_;
  Key* const keys = keys_.data();
  for (std::size_t c = first_child(i); c < end; c = first_child(i)) {
    std::size_t best = c;
    for (std::size_t k = c + 1; k < c + 4; ++k) best = before(keys[k], keys[best]) ? k : best;
    if (!before(keys[best], key)) break;
    keys[i] = keys[best];
    i = best;
  }
  keys[i] = key;
}

std::uint64_t EventQueue::push(Time time, std::uint32_t slot) {
  if (next_sequence_ >= (1ULL << kSequenceBits))
    throw std::length_error("event queue: 2^40 events have been scheduled");
  const Key key{(next_sequence_++ << kSlotBits) | slot, static_cast<std::uint64_t>(time.ticks)};
  // The group of the new key must be whole: up to three places behind it.
  if (kRoot + size_ + 4 >= keys_.size()) grow();
  sift_up(kRoot + size_++, key);
  return key.order;
}

void EventQueue::pop() {
  Key* const keys = keys_.data();
  const std::size_t end = kRoot + --size_;
  const Key last = keys[end];
  keys[end] = kVacant;
  // The hole sinks to a leaf, always towards the smallest child, and the last key rises from there: it is a late one as
  // a rule, and so the descent needs no comparison with it.
  std::size_t i = kRoot;
  std::size_t c = first_child(i);
  while (c < end) {
    const std::size_t grandchildren = first_child(c);
    if (grandchildren < end)
      for (std::size_t k = 0; k < 16; k += 4) __builtin_prefetch(keys + grandchildren + k);
    const std::size_t a = before(keys[c + 1], keys[c]) ? c + 1 : c;
    const std::size_t b = before(keys[c + 3], keys[c + 2]) ? c + 3 : c + 2;
    const std::size_t best = before(keys[b], keys[a]) ? b : a;
    keys[i] = keys[best];
    i = best;
    c = first_child(i);
  }
  if (end != kRoot) sift_up(i, last);
}

}  // namespace orrery::sim
