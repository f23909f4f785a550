// Transactions that are left, and what they want of each other's keys.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/transaction_order/lock_schedule.hpp"

namespace orrery::policies {

class Contention {
 public:
  /// All are left. Borrows the transactions.
  Contention(std::span<const Transaction> transactions, std::size_t keys);

  /// Indices of those that are left, ascending.
  std::span<const std::uint32_t> left() const { return left_; }
  /// Takes one away, by its place in left(); returns its index.
  std::uint32_t take(std::size_t place);

  std::size_t keys() const { return by_key_.size(); }
  /// Locks left on a key, and those of them that write.
  std::int64_t takers(std::uint32_t key) const { return takers_[key]; }
  std::int64_t writers(std::uint32_t key) const { return writers_[key]; }

  /// Ticks by which the first tick of each other transaction left moves back if this one is put down next, summed.
  /// Takes one look at every lock on its keys; the first call after an append one look at every lock left.
  std::int64_t delay_of(std::uint32_t index, const LockSchedule& schedule) const;

 private:
  struct Taker {
    std::uint32_t transaction;
    LockUse lock;
  };
  void count(const Transaction& one, std::int64_t change);

  std::span<const Transaction> transactions_;
  std::vector<std::uint32_t> left_;
  std::vector<bool> is_left_;
  std::vector<std::int64_t> takers_, writers_;
  std::vector<std::vector<Taker>> by_key_;
  // First ticks with what has been put down so far, and room to work.
  mutable std::vector<std::int64_t> starts_, moved_;
  mutable std::vector<std::uint32_t> touched_;
  mutable std::size_t starts_of_ = 0;  ///< how many were left then; 0: never
};

}  // namespace orrery::policies
