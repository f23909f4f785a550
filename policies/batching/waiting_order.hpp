// The queue of a replica in an order other than that of arrival, kept up to date at a cost per change.
//
// A policy that picks by a key would otherwise walk the whole queue at every decision. Keys are fixed while a sequence
// waits; ties are broken by order of arrival. A sequence that comes back after a preemption gets a new key.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "policies/batching/batching.hpp"

namespace orrery::policies {

class WaitingOrder {
 public:
  /// Takes in who arrived or came back since the last call; `key(id)` says who goes first (the least). Call it first in
  /// every decide(). O(log n) a newcomer.
  template <class Key>
  void update(const BatchView& view, const Key& key) {
    for (const Preemption& gone : returned_) push(view, gone.seq, key);
    returned_.clear();
    // Arrivals stand at the back, by order; whoever came with its cache (migrated) stands before all others, and who
    // was preempted stands behind these.
    std::int64_t newest = last_order_;
    const auto take = [&](SeqId id) {
      newest = std::max(newest, view[id].order);
      push(view, id, key);
    };
    auto known = view.waiting.begin();
    for (; known != view.waiting.end() && view[*known].order > last_order_; ++known) take(*known);
    for (auto at = view.waiting.end(); at != known && view[*std::prev(at)].order > last_order_; --at)
      take(*std::prev(at));
    last_order_ = newest;
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
  /// Remembers who comes back to the queue. Call it last in every decide().
  void remember(const BatchDecision& out) { returned_ = out.preempt; }

 private:
  struct Entry {
    std::int64_t key, order;
    SeqId seq;
  };
  static bool after(const Entry& a, const Entry& b) { return a.key != b.key ? a.key > b.key : a.order > b.order; }

  template <class Key>
  void push(const BatchView& view, SeqId id, const Key& key) {
    if (view[id].phase != Phase::waiting) return;
    heap_.push_back({key(id), view[id].order, id});
    std::push_heap(heap_.begin(), heap_.end(), after);
  }

  std::vector<Entry> heap_;
  std::vector<Preemption> returned_;
  std::int64_t last_order_ = -1;
};

}  // namespace orrery::policies
