#include "policies/transaction_order/lock_schedule.hpp"

#include <algorithm>
#include <limits>

namespace orrery::policies {

std::int64_t LockSchedule::start_of(const Transaction& transaction) const {
  std::int64_t start = 1;
  for (const LockUse& lock : transaction.locks) start = std::max(start, taken_until(lock) + 1 - lock.tick);
  return start;
}

std::int64_t LockSchedule::append(const Transaction& transaction) {
  const std::int64_t start = start_of(transaction);
  for (const LockUse& lock : transaction.locks) {
    std::int64_t& last = lock.writes ? last_[lock.key].written : last_[lock.key].read;
    last = std::max(last, start + lock.tick);
  }
  makespan_ = std::max(makespan_, start + transaction.length - 1);
  return start;
}

std::size_t shortest_makespan_next(std::span<const Transaction> transactions, std::span<const std::uint32_t> left,
                                   const LockSchedule& schedule) {
  std::size_t best = 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t place = 0; place < left.size(); ++place) {
    const Transaction& one = transactions[left[place]];
    const std::int64_t end = std::max(schedule.makespan(), schedule.start_of(one) + one.length - 1);
    if (end < least) best = place, least = end;
  }
  return best;
}

std::int64_t makespan_of(std::span<const Transaction> transactions, std::span<const std::uint32_t> order,
                         std::size_t keys) {
  LockSchedule schedule(keys);
  for (const std::uint32_t one : order) schedule.append(transactions[one]);
  return schedule.makespan();
}

std::int64_t makespan_bound(std::span<const Transaction> transactions, std::size_t keys) {
  std::int64_t bound = 0;
  std::vector<std::int64_t> writes(keys, 0), reads(keys, 0);
  for (const Transaction& transaction : transactions) {
    bound = std::max(bound, transaction.length);
    for (const LockUse& lock : transaction.locks) (lock.writes ? writes : reads)[lock.key] += 1;
  }
  for (std::size_t key = 0; key < keys; ++key)
    bound = std::max(bound, writes[key] + std::min<std::int64_t>(1, reads[key]));
  return bound;
}

}  // namespace orrery::policies
