// The front and back of a memory controller: which access of which thread comes in next, and when responses go out
// (rules: hw/memory/dram_design.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <span>
#include <vector>

#include "hw/memory/dram_design.hpp"

namespace orrery::hw {

class DramFront {
 public:
  DramFront(const DramDesign& design, std::span<const DramAccess> accesses);

  /// Gives all responses up to `now`.
  void respond(std::int64_t now);
  /// Offers accesses that are ready at `now` in order; `take` says whether there was room.
  template <class Take>
  void admit(std::int64_t now, Take take) {
    for (auto entry = ready_.begin(); entry != ready_.end() && entry->clock <= now;) {
      Thread& thread = threads_[entry->thread];
      const bool free = design_.arbiter == DramArbiter::simple || thread.active < design_.max_active_transactions;
      if (!free || !take(thread.accesses[thread.next])) {
        if (design_.arbiter != DramArbiter::reorder && free) return;  // no room: all behind it wait
        ++entry;
        continue;
      }
      const std::size_t who = entry->thread;
      ready_.erase(entry);
      ++thread.active;
      ++thread.next;
      enqueue(who);
      entry = ready_.begin();
    }
  }
  /// A column command served an access, the `age`-th that was taken; its data has passed at `done`.
  void served(std::size_t access, std::size_t age, std::int64_t done);
  /// The next clock after `now` at which an access gets ready or a response goes out; the greatest number if none.
  std::int64_t next_event(std::int64_t now) const;
  bool done() const { return responses_ == accesses_.size(); }
  /// Clocks from ready to response, by access.
  const std::vector<std::int64_t>& latencies() const { return latencies_; }

 private:
  struct Thread {
    std::vector<std::size_t> accesses;
    std::size_t next = 0;           // of `accesses`, not yet in
    std::size_t next_response = 0;  // of `accesses`, if they go out in order
    std::int64_t active = 0, last_response = 0, last_out = 0;
    std::map<std::size_t, std::int64_t> held;  // responses before their turn, by place
  };
  struct Ready {
    std::int64_t clock = 0;
    std::size_t access = 0, thread = 0;
    friend auto operator<=>(const Ready&, const Ready&) = default;
  };
  struct Response {
    std::int64_t clock = 0;
    std::size_t access = 0;
    friend auto operator<=>(const Response&, const Response&) = default;
  };

  void enqueue(std::size_t thread);
  void release(std::size_t access, std::int64_t clock);
  void send(std::size_t access, std::int64_t clock);

  const DramDesign& design_;
  std::span<const DramAccess> accesses_;
  std::vector<Thread> threads_;
  std::vector<std::size_t> place_;  // of an access among its thread's
  std::vector<std::int64_t> ready_at_, latencies_;
  std::set<Ready> ready_;  // the next access of each thread that waits for nothing but its clock
  std::priority_queue<Response, std::vector<Response>, std::greater<>> out_;
  std::map<std::size_t, Response> in_turn_;  // served before their turn, by age
  std::size_t turn_ = 0, responses_ = 0;
  std::int64_t last_out_ = 0;
};

}  // namespace orrery::hw
