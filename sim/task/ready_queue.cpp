#include "sim/task/ready_queue.hpp"

#include <algorithm>

namespace orrery::sim {

void ReadyQueue::push_heap(const Entry& entry) {
  heap_.push_back(entry);
  std::push_heap(heap_.begin(), heap_.end(), after);
}

void ReadyQueue::pop() {
  if (heap_first()) {
    std::pop_heap(heap_.begin(), heap_.end(), after);
    heap_.pop_back();
    return;
  }
  ++head_;
  if (head_ == run_.size()) {
    run_.clear();
    head_ = 0;
  } else if (head_ >= 64 && 2 * head_ >= run_.size()) {
    // Moves no more entries than were served since the last time: constant per entry.
    run_.erase(run_.begin(), run_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
}

bool ReadyQueue::remove(std::uint32_t task) {
  const auto is_task = [task](const Entry& entry) { return entry.task == task; };
  const auto first = run_.begin() + static_cast<std::ptrdiff_t>(head_);
  if (const auto at = std::find_if(first, run_.end(), is_task); at != run_.end()) {
    run_.erase(at);
    return true;
  }
  const auto at = std::find_if(heap_.begin(), heap_.end(), is_task);
  if (at == heap_.end()) return false;
  heap_.erase(at);
  std::make_heap(heap_.begin(), heap_.end(), after);
  return true;
}

}  // namespace orrery::sim
