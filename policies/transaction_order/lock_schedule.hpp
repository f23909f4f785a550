// Transactions that take locks, one after the other put where their locks first let them run.
//
// A transaction runs for a whole number of ticks without a pause; at some of them it reads or writes a key. Reads of a
// key may meet in a tick; a write meets neither a write nor a read, and follows those that were put down before it. So
// a transaction starts at the first tick at which none of its locks is taken, and the order alone decides the makespan.
// The rules are those of the evaluator for transaction scheduling of ADRS (Cheng et al. 2025, "Barbarians at the
// Gate").
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace orrery::policies {

struct LockUse {
  std::uint32_t key = 0;
  std::int64_t tick = 0;  ///< of the transaction, from 0
  bool writes = false;
};

struct Transaction {
  std::int64_t length = 0;     ///< ticks
  std::vector<LockUse> locks;  ///< by tick
};

/// What has been put down so far. Ticks are counted from 1.
class LockSchedule {
 public:
  /// For keys 0 … keys - 1.
  explicit LockSchedule(std::size_t keys) : last_(keys) {}

  /// The first tick at which the transaction could run. Linear in its locks.
  std::int64_t start_of(const Transaction& transaction) const;
  /// Puts it there; returns its first tick.
  std::int64_t append(const Transaction& transaction);
  /// The last tick of all; 0 while there is none.
  std::int64_t makespan() const { return makespan_; }
  /// The last tick at which such a lock on the key would have to wait.
  std::int64_t taken_until(const LockUse& lock) const {
    const KeyUse& use = last_[lock.key];
    return lock.writes && use.read > use.written ? use.read : use.written;
  }

 private:
  struct KeyUse {
    std::int64_t read = 0, written = 0;  ///< last ticks
  };
  std::vector<KeyUse> last_;
  std::int64_t makespan_ = 0;
};

/// Of those that are left, the place of the one after which the makespan is least; of equals the first.
std::size_t shortest_makespan_next(std::span<const Transaction> transactions, std::span<const std::uint32_t> left,
                                   const LockSchedule& schedule);

/// The makespan of transactions in that order.
std::int64_t makespan_of(std::span<const Transaction> transactions, std::span<const std::uint32_t> order,
                         std::size_t keys);

/// A makespan that no order is below: the longest transaction, or the most ticks that one key needs (one a write, one
/// more if anything reads it).
std::int64_t makespan_bound(std::span<const Transaction> transactions, std::size_t keys);

}  // namespace orrery::policies
