// The queue of a replica in an order other than that of arrival, kept up to date at a cost per change.
//
// A policy that picks by a key would otherwise walk the whole queue at every decision. Keys are fixed while a sequence
// waits; ties are broken by order of arrival. A sequence that comes back after a preemption gets a new key.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "policies/batching/batching.hpp"

namespace orrery::policies {

/// Whether `id`, which was preempted, is still in the queue: it may have left with its replica's failure since.
inline bool waits(const BatchView& view, SeqId id) {
  return view[id].phase == Phase::waiting && view[id].order >= 0;
}

/// Calls take(id) for everybody in the queue who is newer than the sequence numbered `last`, in order of the queue;
/// returns the newest number. Newcomers stand at the ends: arrivals at the back, who migrated here at the front. In
/// between are those from before, whoever was preempted first.
template <class Take>
std::int64_t take_newcomers(const BatchView& view, std::int64_t last, const Take& take) {
  const std::size_t all = view.waiting.size();
  const auto is_new = [&](std::size_t i) { return view[view.waiting[i]].order > last; };
  std::size_t front = 0;
  while (front < all && is_new(front)) ++front;
  std::size_t back = all;
  while (back > front && is_new(back - 1)) --back;
  std::int64_t newest = last;
  const auto join = [&](std::size_t i) {
    newest = std::max(newest, view[view.waiting[i]].order);
    take(view.waiting[i]);
  };
  for (std::size_t i = 0; i < front; ++i) join(i);
  for (std::size_t i = back; i < all; ++i) join(i);
  return newest;
}

/// Who came back to the queue since the last decision: preempted, or not admitted after all.
class Returned {
 public:
  void add(SeqId id) { ids_.push_back(id); }
  /// Calls take(id) once for each who waits, and forgets them. Who is newer than the sequence numbered `last` is left
  /// to take_newcomers(): one who came back may have left with its replica's failure, and its number be another's now.
  template <class Take>
  void take(const BatchView& view, std::int64_t last, const Take& take) {
    for (auto id = ids_.begin(); id != ids_.end(); ++id)
      if (waits(view, *id) && view[*id].order <= last && std::find(ids_.begin(), id, *id) == id) take(*id);
    ids_.clear();
  }

 private:
  std::vector<SeqId> ids_;
};

class WaitingOrder {
 public:
  /// Takes in who arrived or came back since the last call; `key(id)` says who goes first (the least). Call it first in
  /// every decide(). O(log n) a newcomer.
  template <class Key>
  void update(const BatchView& view, const Key& key) {
    returned_.take(view, last_order_, [&](SeqId id) { push(view, id, key); });
    last_order_ = take_newcomers(view, last_order_, [&](SeqId id) { push(view, id, key); });
  }
  /// Who goes first, or nothing if nobody waits.
  std::optional<SeqId> front(const BatchView& view) {
    while (!heap_.empty()) {
      const Entry& entry = heap_.front();
      const Sequence& seq = view[entry.seq];
      if (seq.order == entry.order && seq.phase == Phase::waiting) return entry.seq;
      pop();  // gone by other ways than ours
    }
    return std::nullopt;
  }
  /// Takes the front off: it was admitted, or can never be.
  void pop() {
    std::pop_heap(heap_.begin(), heap_.end(), after);
    heap_.pop_back();
  }
  /// Admits from the front until somebody does not fit, unless the step preempts; whoever never will is passed over.
  template <class Step>
  void admit(const BatchView& view, const BatchDecision& out, Step& step) {
    if (!out.preempt.empty()) return;
    while (const std::optional<SeqId> first = front(view)) {
      if (!step.too_large(*first) && !step.admit(*first)) break;
      pop();
    }
  }
  /// Somebody came back to the queue whom no decision named.
  void came_back(SeqId id) { returned_.add(id); }
  /// Remembers who comes back to the queue, or may have to stay in it. Call it last in every decide().
  void remember(const BatchDecision& out) {
    for (const Preemption& gone : out.preempt) returned_.add(gone.seq);
    if (out.preempt.empty()) return;
    for (const Admission& admission : out.admit) returned_.add(admission.seq);
  }

 private:
  struct Entry {
    std::int64_t key, order;
    SeqId seq;
  };
  static bool after(const Entry& a, const Entry& b) { return a.key != b.key ? a.key > b.key : a.order > b.order; }

  template <class Key>
  void push(const BatchView& view, SeqId id, const Key& key) {
    heap_.push_back({key(id), view[id].order, id});
    std::push_heap(heap_.begin(), heap_.end(), after);
  }

  std::vector<Entry> heap_;
  Returned returned_;
  std::int64_t last_order_ = -1;
};

}  // namespace orrery::policies
