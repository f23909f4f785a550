// A heap of numbered entries whose keys can change: the least key first.
//
// Entries are small numbers (indices of the owner's table), each in the heap at most once. Equal keys come up in no
// particular order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace orrery::sim {

class IndexedHeap {
 public:
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  bool contains(std::uint32_t id) const { return id < position_.size() && position_[id] != kAbsent; }
  std::int64_t key(std::uint32_t id) const { return heap_[position_[id]].key; }
  std::int64_t top_key() const { return heap_[0].key; }
  std::uint32_t top() const { return heap_[0].id; }

  /// Adds `id`, or gives it another key. Logarithmic.
  void set(std::uint32_t id, std::int64_t key) {
    if (id >= position_.size()) position_.resize(id + 1, kAbsent);
    std::uint32_t place = position_[id];
    if (place == kAbsent) {
      place = static_cast<std::uint32_t>(heap_.size());
      heap_.push_back({key, id});
      rise(place, {key, id});
    } else if (key < heap_[place].key) {
      rise(place, {key, id});
    } else {
      sink(place, {key, id});
    }
  }
  /// Takes `id` out; it must be there.
  void erase(std::uint32_t id) {
    const std::uint32_t place = position_[id];
    position_[id] = kAbsent;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (place == heap_.size()) return;
    if (place > 0 && last.key < heap_[(place - 1) / 4].key) {
      rise(place, last);
    } else {
      sink(place, last);
    }
  }

 private:
  struct Entry {
    std::int64_t key;
    std::uint32_t id;
  };
  static constexpr std::uint32_t kAbsent = ~0U;

  void put(std::uint32_t place, Entry entry) {
    heap_[place] = entry;
    position_[entry.id] = place;
  }
  void rise(std::uint32_t place, Entry entry) {
    while (place > 0) {
      const std::uint32_t up = (place - 1) / 4;
      if (heap_[up].key <= entry.key) break;
      put(place, heap_[up]);
      place = up;
    }
    put(place, entry);
  }
  void sink(std::uint32_t place, Entry entry) {
    const auto size = static_cast<std::uint32_t>(heap_.size());
    while (4 * place + 1 < size) {
      const std::uint32_t first = 4 * place + 1;
      std::uint32_t best = first;
      for (std::uint32_t c = first + 1; c < std::min(first + 4, size); ++c)
        best = heap_[c].key < heap_[best].key ? c : best;
      if (heap_[best].key >= entry.key) break;
      put(place, heap_[best]);
      place = best;
    }
    put(place, entry);
  }

  std::vector<Entry> heap_;
  std::vector<std::uint32_t> position_;
};

}  // namespace orrery::sim
