// A binary heap of pointers whose elements know their places, so that any of them leaves in logarithmic time.
#pragma once

#include <cstddef>
#include <vector>

namespace orrery::sim {

/// `Before{}(a, b)` is a strict total order; the first comes out first. T has a member `std::size_t heap_place`, which
/// is the heap's while the element is in it.
template <class T, class Before>
class IntrusiveHeap {
 public:
  bool empty() const { return elements_.empty(); }
  std::size_t size() const { return elements_.size(); }
  T& top() const { return *elements_.front(); }
  /// All elements, in no order that means anything.
  const std::vector<T*>& elements() const { return elements_; }
  void push(T& element) {
    elements_.push_back(&element);
    rise(elements_.size() - 1, element);
  }
  void remove(T& element) {
    const std::size_t place = element.heap_place;
    T& last = *elements_.back();
    elements_.pop_back();
    if (&last == &element) return;
    if (place > 0 && Before{}(last, *elements_[(place - 1) / 2]))
      rise(place, last);
    else
      sink(place, last);
  }
  void pop() { remove(top()); }

 private:
  void put(std::size_t place, T& element) {
    elements_[place] = &element;
    element.heap_place = place;
  }
  void rise(std::size_t place, T& element) {
    while (place > 0 && Before{}(element, *elements_[(place - 1) / 2])) {
      put(place, *elements_[(place - 1) / 2]);
      place = (place - 1) / 2;
    }
    put(place, element);
  }
  void sink(std::size_t place, T& element) {
    while (2 * place + 1 < elements_.size()) {
      std::size_t child = 2 * place + 1;
      if (child + 1 < elements_.size() && Before{}(*elements_[child + 1], *elements_[child])) ++child;
      if (!Before{}(*elements_[child], element)) break;
      put(place, *elements_[child]);
      place = child;
    }
    put(place, element);
  }

  std::vector<T*> elements_;
};

}  // namespace orrery::sim
