// The exchanges of `halving_doubling` as arithmetic: the schedule and its closed form share it.
//
// p is the largest power of two that is not above n, and p = 2^k of the ranks are active. Reduce-scatter: in k steps an
// active rank exchanges half of what it is responsible for with a partner and keeps the other half; all-gather undoes
// that. All-reduce takes near partners first while the messages are large (distance 1, 2, 4 …, then back); alone,
// reduce-scatter begins with the far ones and all-gather ends with them, so that every rank's part is in one piece.
// Where n > p, the first 2(n-p) ranks pair up: the even one is folded into the odd one before and served after.
// Rabenseifner, "Optimization of collective reduction operations", 2004; Thakur, Rabenseifner and Gropp, "Optimization
// of collective communication operations in MPICH", 2005.
#pragma once

#include <bit>
#include <cstdint>

#include "hw/network/collective_parts.hpp"

namespace orrery::hw {

class HalvingDoublingPlan {
 public:
  explicit HalvingDoublingPlan(const CollectiveSpec& spec)
      : kind_(spec.kind),
        active_(std::bit_floor(static_cast<Member>(spec.ranks))),
        folded_(static_cast<Member>(spec.ranks) - active_),
        halvings_(static_cast<unsigned>(std::bit_width(active_)) - 1),
        shards_(kind_ == CollectiveKind::all_reduce ? Shards(spec.bytes, active_) : Shards::of(spec)) {}

  Member active() const { return active_; }
  Member folded() const { return folded_; }
  /// Steps of the active ranks, numbered 1 … steps(); 0 is the folding, steps() + 1 the serving after.
  unsigned steps() const { return kind_ == CollectiveKind::all_reduce ? 2 * halvings_ : halvings_; }
  bool reduces(unsigned step) const {
    return kind_ == CollectiveKind::reduce_scatter || (kind_ == CollectiveKind::all_reduce && step <= halvings_);
  }
  /// Whether a rank is folded into the next one.
  bool is_folded(Member rank) const { return rank < 2 * folded_ && rank % 2 == 0; }
  /// Number of an active rank among the active ones, and back.
  Member slot(Member rank) const { return rank < 2 * folded_ ? rank / 2 : rank - folded_; }
  Member rank(Member slot) const { return slot < folded_ ? 2 * slot + 1 : slot + folded_; }
  Member partner(Member slot, unsigned step) const { return slot ^ (Member{1} << turned_bit(level(step))); }

  /// What the active rank of `slot` sends in a step, 1 … steps().
  Piece sent(Member slot, unsigned step) const {
    return span(reduces(step) ? partner(slot, step) : slot, level(step) + 1, reduces(step));
  }
  /// What a folded rank gives, and what it gets in the end.
  Piece given(Member rank) const {
    if (kind_ == CollectiveKind::all_gather) return {shards_.first(rank), shards_.bytes(rank), false};
    return {0, total(), true};
  }
  Piece served(Member rank) const {
    if (kind_ == CollectiveKind::reduce_scatter) return {shards_.first(rank), shards_.bytes(rank), false};
    return {0, total(), false};
  }

 private:
  std::int64_t total() const { return shards_.first(static_cast<std::size_t>(shards_.size())); }
  /// Halvings before the one that a step does or undoes.
  unsigned level(unsigned step) const {
    if (reduces(step)) return step - 1;
    return kind_ == CollectiveKind::all_reduce ? 2 * halvings_ - step : halvings_ - step;
  }
  /// Bit of the slot in which the partners of a level differ.
  unsigned turned_bit(unsigned level) const {
    return kind_ == CollectiveKind::all_reduce ? level : halvings_ - 1 - level;
  }
  /// What `slot` is responsible for after so many halvings.
  Piece span(Member slot, unsigned halvings, bool reduce) const {
    Member lo = 0;
    for (unsigned i = 0; i < halvings; ++i)
      if ((slot >> turned_bit(i) & 1) != 0) lo += active_ >> (i + 1);
    const std::int64_t first = first_of(lo);
    return {first, first_of(lo + (active_ >> halvings)) - first, reduce};
  }
  /// First byte of a slot's part: all-reduce cuts by active ranks; else an active rank stands for its folded one too.
  std::int64_t first_of(Member slot) const {
    if (kind_ == CollectiveKind::all_reduce) return shards_.first(slot);
    return shards_.first(slot < folded_ ? 2 * slot : slot + folded_);
  }

  CollectiveKind kind_;
  Member active_;
  Member folded_;
  unsigned halvings_;
  Shards shards_;
};

}  // namespace orrery::hw
