// A resource that serves all its jobs at once, each at an equal share of its rate or a share by weight.
//
// With weights w that sum to W, a job runs at w times v servers, v = min(cap, servers / W). So a job of weight w is
// served as w equal jobs are, and `cap` (one server, say) bounds each of them. Virtual time V runs at speed v; a job of
// work x that arrives at V ends at V + x / w. An arrival or an end costs O(log n) in the number of jobs. V is an
// integer in 2^-32 of a tick; an end is rounded up to a tick, unless it is less than 2^-16 behind one. Source: Parekh
// and Gallager 1993 (virtual time).
#pragma once

#include "sim/base/intrusive_heap.hpp"
#include "sim/process.hpp"
#include "sim/resource.hpp"

namespace orrery::sim {

class ProcessorSharing;

/// What ProcessorSharing::use() gives; await it at once.
class [[nodiscard]] SharedUse final : public Waiter {
 public:
  SharedUse(ProcessorSharing& resource, Duration work, std::int64_t weight);
  SharedUse(SharedUse&&) = default;
  ~SharedUse();
  Engine& engine() const;
  bool await_ready() const { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    begin_wait(handle.promise());
  }
  void await_resume() { resumed(); }
  void describe(std::string& out) const override;

  std::size_t heap_place = 0;

 private:
  friend ProcessorSharing;
  void begin_wait(PromiseBase& promise);

  ProcessorSharing* resource_;  // null once the resource is gone
  Duration work_;
  std::int64_t weight_;
  __int128 end_ = 0;  // in virtual time
  std::uint64_t sequence_ = 0;
  bool served_ = false;  // is in the heap, not yet in the list of those that ended
};

/// Sums are integers; `arrived` = served + cancelled + those in service.
struct SharingStatistics {
  std::int64_t arrived = 0;
  std::int64_t served = 0;
  std::int64_t cancelled = 0;
  __int128 job_ticks = 0;   ///< jobs in service, over time
  __int128 busy_ticks = 0;  ///< time with at least one job
  double mean_jobs = 0;
};

class ProcessorSharing final : public Resource, private EventHandler {
 public:
  /// `servers` in all, at most `cap` of them for a job of weight 1; both from 2^-17 to 2^16 (else std::logic_error),
  /// and rounded to a multiple of 2^-16.
  ProcessorSharing(Engine& engine, std::string name, double servers = 1, double cap = 1);
  ~ProcessorSharing() override;

  /// `co_await ps.use(work)`: waits until `work` (>= 0: the time that one server would need) is done. `weight` is 1 to
  /// 2^16, and the weights in service sum to 2^24 at most (else std::logic_error). Throws std::overflow_error, from the
  /// co_await, where it could not end before the end of time even alone; what does not end for the others' sake makes
  /// Engine::run() throw that when time ends.
  SharedUse use(Duration work, std::int64_t weight = 1) { return {*this, work, weight}; }
  /// Jobs in service.
  std::int64_t jobs() const { return jobs_.value(); }
  SharingStatistics statistics() const;
  /// Forgets what was, at the end of a warm-up. Jobs in service count as arrived.
  void restart_statistics();

 private:
  friend SharedUse;
  struct Earlier {
    bool operator()(const SharedUse& a, const SharedUse& b) const {
      return a.end_ != b.end_ ? a.end_ < b.end_ : a.sequence_ < b.sequence_;
    }
  };
  void on_event(std::uint64_t payload) override;
  void arrive(SharedUse& use);
  void leave_heap(SharedUse& use);
  __int128 time_to_next() const;
  void cancel(SharedUse& use);
  __int128 clock() const;
  void serve(__int128 span);
  void advance();
  void count(std::int64_t jobs);
  void schedule_next();
  bool shared() const { return rate_ < cap_ * total_weight_; }

  std::int64_t rate_, cap_;  // in 2^-16 servers
  std::int64_t total_weight_ = 0;
  __int128 virtual_now_ = 0;
  __int128 reached_ = 0;  // virtual_now_ holds for this time, in 2^-24 ticks
  IntrusiveHeap<SharedUse, Earlier> heap_;
  List<SharedUse> ended_;  // between the ticks; their processes go on at this one
  EventId next_;
  std::uint64_t next_sequence_ = 0;
  TimeIntegral jobs_, busy_;
  std::int64_t arrived_ = 0, served_ = 0, cancelled_ = 0;
};

}  // namespace orrery::sim
