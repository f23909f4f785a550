#include "hw/memory/dram_arbiter.hpp"

#include <algorithm>
#include <limits>

namespace orrery::hw {

DramFront::DramFront(const DramDesign& design, std::span<const DramAccess> accesses)
    : design_(design), accesses_(accesses), ready_at_(accesses.size()), latencies_(accesses.size()) {
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    const auto thread = static_cast<std::size_t>(accesses[i].thread);
    if (thread >= threads_.size()) threads_.resize(thread + 1);
    place_.push_back(threads_[thread].accesses.size());
    threads_[thread].accesses.push_back(i);
  }
  for (std::size_t thread = 0; thread < threads_.size(); ++thread) enqueue(thread);
}

// Lists the thread's next access, unless it still waits for a response.
void DramFront::enqueue(std::size_t index) {
  const Thread& thread = threads_[index];
  if (thread.next == thread.accesses.size()) return;
  const std::size_t access = thread.accesses[thread.next];
  const DramAccess& a = accesses_[access];
  if (a.dependent && thread.active > 0) return;
  ready_at_[access] = a.dependent ? thread.last_response + a.ready : a.ready;
  ready_.insert({ready_at_[access], access, index});
}

void DramFront::served(std::size_t access, std::size_t age, std::int64_t done) {
  if (design_.response_queue == DramResponses::fifo) {
    release(access, done);
    return;
  }
  in_turn_.emplace(age, Response{done, access});
  for (auto next = in_turn_.find(turn_); next != in_turn_.end(); next = in_turn_.find(turn_)) {
    last_out_ = std::max(last_out_, next->second.clock);
    release(next->second.access, last_out_);
    in_turn_.erase(next);
    ++turn_;
  }
}

// A response leaves the controller; a reordering arbiter keeps it until its thread's earlier ones have gone.
void DramFront::release(std::size_t access, std::int64_t clock) {
  if (design_.arbiter != DramArbiter::reorder) {
    out_.push({clock, access});
    return;
  }
  Thread& thread = threads_[static_cast<std::size_t>(accesses_[access].thread)];
  thread.held.emplace(place_[access], clock);
  for (auto next = thread.held.find(thread.next_response); next != thread.held.end();
       next = thread.held.find(thread.next_response)) {
    thread.last_out = std::max(thread.last_out, next->second);
    out_.push({thread.last_out, thread.accesses[thread.next_response]});
    thread.held.erase(next);
    ++thread.next_response;
  }
}

void DramFront::respond(std::int64_t now) {
  while (!out_.empty() && out_.top().clock <= now) {
    const Response response = out_.top();
    out_.pop();
    send(response.access, response.clock);
  }
}

void DramFront::send(std::size_t access, std::int64_t clock) {
  const auto index = static_cast<std::size_t>(accesses_[access].thread);
  Thread& thread = threads_[index];
  latencies_[access] = clock - ready_at_[access];
  ++responses_;
  --thread.active;
  thread.last_response = clock;
  const bool waited = thread.next < thread.accesses.size() && accesses_[thread.accesses[thread.next]].dependent;
  if (waited && thread.active == 0) enqueue(index);
}

std::int64_t DramFront::next_event(std::int64_t now) const {
  std::int64_t next = std::numeric_limits<std::int64_t>::max();
  if (!out_.empty()) next = out_.top().clock;
  // What is ready and was not let in waits for room or a response, not for a clock.
  const auto later = ready_.lower_bound({now + 1, 0, 0});
  return later == ready_.end() ? next : std::min(next, later->clock);
}

}  // namespace orrery::hw
