// A number of equal tokens (bytes of memory, cache blocks, credits) that processes take and give back.
//
// Requests are met in the order of arrival. By default nothing overtakes: a large request at the head holds up smaller
// ones behind it, and so is never starved. With `best_effort` whatever fits is met, in the order of arrival; a large
// request may then wait for ever, and giving back looks at every request that waits.
#pragma once

#include <optional>

#include "sim/process.hpp"
#include "sim/resource.hpp"

namespace orrery::sim {

enum class Admission : std::uint8_t { fifo, best_effort };

class TokenPool;
/// Tokens that are held until the guard ends; units() says how many.
using Tokens = Guard<TokenPool>;

/// What TokenPool::acquire() gives; await it at once. The tokens are empty if the pool went while they were waited for.
class [[nodiscard]] TokenRequest final : public Waiter {
 public:
  TokenRequest(TokenPool& pool, std::int64_t count) : pool_(&pool), count_(count) {}
  TokenRequest(TokenRequest&&) = default;
  ~TokenRequest();
  Engine& engine() const;
  bool await_ready();
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    begin_wait(handle.promise());
  }
  Tokens await_resume();
  void describe(std::string& out) const override;

 private:
  friend TokenPool;
  TokenPool& pool() const;
  void begin_wait(PromiseBase& promise);

  TokenPool* pool_;  // null once the pool is gone
  std::int64_t count_;
  bool taken_ = false;  // the tokens are set aside for it
};

class TokenPool final : public Resource {
 public:
  /// `capacity` tokens (>= 0; else std::logic_error), all free.
  TokenPool(Engine& engine, std::string name, std::int64_t capacity, Admission admission = Admission::fifo);
  ~TokenPool();

  /// `Tokens tokens = co_await pool.acquire(n)`. Throws std::logic_error if n is negative or more than the capacity.
  TokenRequest acquire(std::int64_t count);
  /// The tokens, if they are free now (and, in order of arrival, nobody waits). Throws as acquire() does.
  std::optional<Tokens> try_acquire(std::int64_t count);

  std::int64_t capacity() const { return capacity_; }
  std::int64_t free() const { return capacity_ - used_.value(); }
  /// Requests that wait.
  std::int64_t waiting() const { return waiting_.value(); }
  /// Forgets what was, at the end of a warm-up.
  void restart_statistics();
  /// Tokens held and requests waiting, over time.
  const TimeIntegral& used_over_time() const { return used_; }
  const TimeIntegral& waiting_over_time() const { return waiting_; }

 private:
  friend TokenRequest;
  friend Tokens;
  void check(std::int64_t count) const;
  bool fits(std::int64_t count) const {
    return count <= free() && (queue_.empty() || admission_ == Admission::best_effort);
  }
  void give_back(std::int64_t count);
  void grant_waiting();
  Tokens take(TokenRequest& request);
  void cancel(TokenRequest& request);
  void describe(const TokenRequest& request, std::string& out) const;

  std::int64_t capacity_;
  Admission admission_;
  List<TokenRequest> queue_;
  List<TokenRequest> granted_;  // not yet taken
  List<Tokens> holds_;
  TimeIntegral used_, waiting_;
};

}  // namespace orrery::sim
