// Pending events, the earliest first: a 4-ary heap of 16-byte keys.
//
// A key is {time 64 bits, rank 2, sequence 38, slot 24}. Keys are compared as one 128-bit number, without branches; the four
// children of a node share a cache line, and the next level is fetched while this one is compared. Vacant places behind
// the last key hold the largest key there is, so that a group of four is always whole.
//
// Most events schedule another. So pop() only leaves a hole at the root, which the next push fills on its way down: one
// descent for both. Whoever asks for the top before that closes the hole with the last key.
// Pure: knows no clock, no handlers.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/pages.hpp"
#include "sim/base/units.hpp"

namespace orrery::sim {

/// Whose turn it is among events of one instant, whenever they were scheduled.
enum class Rank : std::uint8_t {
  first,  ///< what ends then
  usual,
  late,  ///< what comes from outside: it finds done whatever was to be done
  last   ///< what is decided once all else of the instant is through
};

class EventQueue {
 public:
  static constexpr std::uint64_t kSlotBits = 24;
  static constexpr std::uint64_t kSequenceBits = 38;
  static constexpr std::uint64_t kRankShift = kSlotBits + kSequenceBits;
  static constexpr std::uint64_t kSlotMask = (1ULL << kSlotBits) - 1;

  struct Top {
    Time time;
    std::uint64_t order;  ///< rank, sequence and slot: names the event for ever, since no sequence comes twice
    std::uint32_t slot() const { return static_cast<std::uint32_t>(order & kSlotMask); }
    Rank rank() const { return static_cast<Rank>(order >> kRankShift); }
  };

  /// `first_sequence` > 0 serves tests of the end of the range.
  explicit EventQueue(std::uint64_t first_sequence = 0);
  bool empty() const { return size() == 0; }
  std::size_t size() const { return size_ - (hole_ ? 1 : 0); }
  /// Adds an event of `slot` (< 2^24) and returns its order. Equal times come up by rank, equal ranks in the order of
  /// pushing. Throws std::length_error when 2^38 events have been pushed: no part of a key wraps in silence.
  std::uint64_t push(Time time, std::uint32_t slot, Rank rank = Rank::usual);
  /// The earliest; the queue must not be empty.
  Top top() {
    if (hole_) close_hole();
    return {Time{static_cast<std::int64_t>(keys_[kRoot].time)}, keys_[kRoot].order};
  }
  /// Slot of the event that comes after the top, unless another is pushed before it; the top's own if there is none.
  /// Between top() and pop().
  std::uint32_t next_slot() const;
  /// Takes the earliest out. top() must have been called since the last pop().
  void pop() { hole_ = true; }
  /// Where the caller keeps data by slot, `stride` bytes each: what will be needed soon is fetched ahead. Null:
  /// nowhere.
  void set_slots(const void* data, std::size_t stride) {
    slots_ = static_cast<const char*>(data);
    stride_ = stride;
  }
  /// Drops every key for which `dead(order)` holds. Linear; the order of the others stays.
  template <class Dead>
  void remove_if(Dead dead);

 private:
  struct Key {
    std::uint64_t order;  // rank << 62 | sequence << 24 | slot; low half of the 128-bit number on little-endian hosts
    std::uint64_t time;
  };
  static constexpr Key kVacant{~0ULL, ~0ULL};
  // The root stands at 3, the children of i at 4(i-2) … 4(i-2)+3: every group starts a cache line.
  static constexpr std::size_t kRoot = 3;
  static constexpr std::size_t kNear = 8, kFar = 24;  // the root's grandchildren: what comes here comes up soon
  static std::size_t first_child(std::size_t i) { return 4 * (i - 2); }
  static std::size_t parent(std::size_t i) { return i / 4 + 2; }
  using Number = unsigned __int128;
  static Number number(const Key& key) { return (static_cast<Number>(key.time) << 64) | key.order; }
  void sift_up(std::size_t i, Key key);
  void sift_down(std::size_t i, Key key);
  void close_hole();
  void grow();
  [[noreturn]] static void exhausted();

  std::vector<Key, PageAllocator<Key>> keys_;
  std::size_t size_ = 0;  // the hole included
  bool hole_ = false;     // the root has been taken out
  std::uint64_t next_sequence_;
  const char* slots_ = nullptr;
  std::size_t stride_ = 0;
};

inline std::uint64_t EventQueue::push(Time time, std::uint32_t slot, Rank rank) {
  if (next_sequence_ >= (1ULL << kSequenceBits)) exhausted();
  const Key key{(static_cast<std::uint64_t>(rank) << kRankShift) | (next_sequence_++ << kSlotBits) | slot,
                static_cast<std::uint64_t>(time.ticks)};
  if (hole_) {
    hole_ = false;
    sift_down(kRoot, key);
    return key.order;
  }
  // The group of the new key must be whole: up to three places behind it.
  if (kRoot + size_ + 4 >= keys_.size()) grow();
  sift_up(kRoot + size_++, key);
  return key.order;
}

template <class Dead>
void EventQueue::remove_if(Dead dead) {
  if (hole_) close_hole();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < size_; ++i)
    if (!dead(keys_[kRoot + i].order)) keys_[kRoot + kept++] = keys_[kRoot + i];
  for (std::size_t i = kept; i < size_; ++i) keys_[kRoot + i] = kVacant;
  size_ = kept;
  if (size_ < 2) return;
  for (std::size_t i = parent(kRoot + size_ - 1) + 1; i-- > kRoot;) sift_down(i, keys_[i]);
}

}  // namespace orrery::sim
