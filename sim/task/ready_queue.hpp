// Tasks that wait, in the order in which they are to be served.
//
// A sorted run and a heap: what is pushed behind the run's last entry joins the run, anything else goes to the heap,
// and the next entry is the smaller of the two fronts. First come first served costs a ring's push and pop that way,
// any other order a heap's; the order served is exactly that of the keys. Pure: knows no tasks, no clock.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace orrery::sim {

/// What decides between waiting tasks: smaller first, field by field.
struct OrderKey {
  std::int64_t key = 0;    ///< what the order of the resource makes of the task
  std::int64_t ready = 0;  ///< when it became ready, in ticks
  std::uint64_t tie = 0;   ///< tasks that became ready together (for last come first served, the complement)
  friend constexpr auto operator<=>(const OrderKey&, const OrderKey&) = default;
};

class ReadyQueue {
 public:
  bool empty() const { return head_ == run_.size() && heap_.empty(); }
  std::size_t size() const { return run_.size() - head_ + heap_.size(); }
  /// Adds `task`. Amortised constant behind the last of the run, else logarithmic.
  void push(const OrderKey& key, std::uint32_t task) {
    const Entry entry{key.key, key.ready, key.tie, task};
    if (head_ == run_.size() || !before(entry, run_.back())) {
      run_.push_back(entry);
    } else {
      push_heap(entry);
    }
  }
  /// The task to serve next and its key; the queue must not be empty.
  std::uint32_t front() const { return front_entry().task; }
  OrderKey front_key() const {
    const Entry& entry = front_entry();
    return {entry.key, entry.ready, entry.tie};
  }
  void pop();
  /// Takes a task out from wherever it stands: linear. False if it is not there.
  bool remove(std::uint32_t task);

 private:
  struct Entry {
    std::int64_t key, ready;
    std::uint64_t tie;
    std::uint32_t task;
  };
  static bool before(const Entry& a, const Entry& b) {
    if (a.key != b.key) return a.key < b.key;
    if (a.ready != b.ready) return a.ready < b.ready;
    return a.tie < b.tie;
  }
  static bool after(const Entry& a, const Entry& b) { return before(b, a); }
  bool heap_first() const { return head_ == run_.size() || (!heap_.empty() && before(heap_.front(), run_[head_])); }
  const Entry& front_entry() const { return heap_first() ? heap_.front() : run_[head_]; }
  void push_heap(const Entry& entry);

  std::vector<Entry> run_;  // sorted from head_ on; what stands before has been served
  std::size_t head_ = 0;
  std::vector<Entry> heap_;
};

}  // namespace orrery::sim
