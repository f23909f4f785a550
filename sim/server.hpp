// A station of equal servers with one queue.
//
// A process is served for a time (`use`) or takes a server until it gives it back (`acquire`). Disciplines: first come
// first served; by priority, the smaller number first and equal ones in the order of arrival; and preemptive, where a
// more urgent arrival takes the server of the least urgent job in service (of equal ones, of the last to arrive). A
// preempted job waits at its old place among its equals and then goes on, or starts again. A service costs one event.
#pragma once

#include <array>
#include <optional>

#include "sim/base/intrusive_heap.hpp"
#include "sim/process.hpp"
#include "sim/resource.hpp"

namespace orrery::sim {

enum class Discipline : std::uint8_t { fifo, priority, preempt_resume, preempt_restart };

class Server;
class ServerUse;
class ServerAcquire;
/// A server that is held until the guard ends.
using Hold = Guard<Server>;

/// What a station did so far. Sums are integers; `arrived` = served + cancelled + those in the station.
struct ServerStatistics {
  std::int64_t arrived = 0;
  std::int64_t served = 0;     ///< services that ended, and servers given back
  std::int64_t cancelled = 0;  ///< left before that
  std::int64_t preempted = 0;
  __int128 busy_ticks = 0;    ///< summed over the servers
  __int128 queued_ticks = 0;  ///< summed over those waiting
  double utilisation = 0;     ///< busy servers, over servers
  double mean_queue = 0;      ///< waiting, without those in service
};

namespace detail {

/// Somebody at a station.
class Job : public Waiter {
 public:
  Engine& engine() const;
  void describe(std::string& out) const override;

  std::int64_t priority;
  std::uint64_t sequence = 0;  // order of arrival
  std::size_t heap_place = 0;

 protected:
  enum class Place : std::uint8_t { outside, queue, service };
  Job(Server& server, std::int64_t priority_, bool is_use) : priority(priority_), server_(&server), is_use_(is_use) {}
  Job(Job&&) = default;
  ~Job() = default;
  /// For the destructors of the derived classes: leaves the station if it is there.
  void leave();
  Server& server() const;
  bool gone() const { return server_ == nullptr; }

 private:
  friend orrery::sim::Server;
  Server* server_;  // null once the station is gone
  Place place_ = Place::outside;
  bool is_use_;
};

struct MoreUrgent {
  bool operator()(const Job& a, const Job& b) const {
    return a.priority != b.priority ? a.priority < b.priority : a.sequence < b.sequence;
  }
};
struct LessUrgent {
  bool operator()(const Job& a, const Job& b) const { return MoreUrgent{}(b, a); }
};

}  // namespace detail

/// What Server::use() gives; await it at once.
class [[nodiscard]] ServerUse final : public detail::Job {
 public:
  ServerUse(Server& server, Duration service, std::int64_t priority_);
  ServerUse(ServerUse&&) = default;
  ~ServerUse() { leave(); }
  bool await_ready() const { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    begin_wait(handle.promise());
  }
  void await_resume() {
    resumed();
    if (late_for_ != nullptr) late_for_->expect_time_for(left_);
  }

 private:
  friend Server;
  void begin_wait(PromiseBase& promise);

  Duration service_, left_;
  Time end_ = kNever;  // while in service
  EventId event_;
  const Engine* late_for_ = nullptr;  // its engine, where it was refused
};

/// What Server::acquire() gives; await it at once. The hold is empty if the station went while it was waited for.
class [[nodiscard]] ServerAcquire final : public detail::Job {
 public:
  ServerAcquire(Server& server, std::int64_t priority_) : Job(server, priority_, false) {}
  ServerAcquire(ServerAcquire&&) = default;
  ~ServerAcquire() { leave(); }
  bool await_ready();
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    begin_wait(handle.promise());
  }
  Hold await_resume();

 private:
  void begin_wait(PromiseBase& promise);
};

class Server final : public Resource, private EventHandler {
 public:
  /// `capacity` equal servers (>= 1; else std::logic_error).
  Server(Engine& engine, std::string name, std::int64_t capacity = 1, Discipline discipline = Discipline::fifo);
  ~Server() override;

  /// `co_await server.use(d)`: waits for a server, and is served for `d` (>= 0; else std::logic_error). Throws
  /// std::overflow_error, from the co_await, as soon as the service cannot end before the end of time.
  ServerUse use(Duration service, std::int64_t priority = 0) { return {*this, service, priority}; }
  /// `Hold hold = co_await server.acquire()`: waits for a server, and keeps it until the hold ends. Throws
  /// std::logic_error if the station preempts.
  ServerAcquire acquire(std::int64_t priority = 0);
  /// A server, if one is free and nobody waits.
  std::optional<Hold> try_acquire();

  std::int64_t capacity() const { return capacity_; }
  std::int64_t busy() const { return busy_.value(); }
  std::int64_t waiting() const { return waiting_.value(); }
  /// Since the start or the last restart of the statistics, up to now.
  ServerStatistics statistics() const;
  /// Forgets what was, at the end of a warm-up. Jobs in the station count as arrived.
  void restart_statistics();

 private:
  using Job = detail::Job;
  friend Job;
  friend ServerUse;
  friend ServerAcquire;
  friend Hold;
  void on_event(std::uint64_t payload) override;
  bool preempts() const { return discipline_ >= Discipline::preempt_resume; }
  bool full() const { return busy_.value() == capacity_; }
  void arrive(Job& job);
  void enqueue(Job& job);
  void dequeue(Job& job);
  void begin(Job& job);
  void end(Job& job);
  void begin_next();
  void refuse(ServerUse& use);
  bool preempt_for(const Job& job);
  void cancel(Job& job);
  Hold take(Job& granted);
  void give_back(std::int64_t units);
  void let_go(Job& job);
  void describe(std::string& out) const;

  std::int64_t capacity_;
  Discipline discipline_;
  List<Job> fifo_;                                      // waiting, where the discipline is fifo
  IntrusiveHeap<Job, detail::MoreUrgent> queue_;        // waiting, where it is not
  IntrusiveHeap<Job, detail::LessUrgent> preemptible_;  // in service, where it preempts
  List<Job> serving_;                                   // in service, and granted but not yet taken
  List<Hold> holds_;
  std::uint64_t next_sequence_ = 0;
  TimeIntegral busy_, waiting_;
  std::int64_t arrived_ = 0, served_ = 0, cancelled_ = 0, preempted_ = 0;
};

}  // namespace orrery::sim
