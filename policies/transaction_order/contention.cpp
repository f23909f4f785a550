#include "policies/transaction_order/contention.hpp"

#include <algorithm>
#include <numeric>

namespace orrery::policies {

Contention::Contention(std::span<const Transaction> transactions, std::size_t keys)
    : transactions_(transactions),
      left_(transactions.size()),
      is_left_(transactions.size(), true),
      takers_(keys, 0),
      writers_(keys, 0),
      by_key_(keys),
      starts_(transactions.size(), 0),
      moved_(transactions.size(), 0) {
  std::iota(left_.begin(), left_.end(), 0U);
  for (std::uint32_t i = 0; i < transactions.size(); ++i) {
    count(transactions[i], 1);
    for (const LockUse& lock : transactions[i].locks) by_key_[lock.key].push_back({i, lock});
  }
}

void Contention::count(const Transaction& one, std::int64_t change) {
  for (const LockUse& lock : one.locks) {
    takers_[lock.key] += change;
    if (lock.writes) writers_[lock.key] += change;
  }
}

std::uint32_t Contention::take(std::size_t place) {
  const std::uint32_t index = left_[place];
  left_.erase(left_.begin() + static_cast<std::ptrdiff_t>(place));
  is_left_[index] = false;
  count(transactions_[index], -1);
  for (const LockUse& lock : transactions_[index].locks)
    std::erase_if(by_key_[lock.key], [&](const Taker& taker) { return taker.transaction == index; });
  return index;
}

std::int64_t Contention::delay_of(std::uint32_t index, const LockSchedule& schedule) const {
  if (starts_of_ != left_.size()) {
    for (const std::uint32_t one : left_) starts_[one] = schedule.start_of(transactions_[one]);
    starts_of_ = left_.size();
  }
  std::int64_t delay = 0;
  for (const LockUse& lock : transactions_[index].locks) {
    const std::int64_t tick = starts_[index] + lock.tick;
    for (const Taker& taker : by_key_[lock.key]) {
      if (taker.transaction == index || (!lock.writes && !taker.lock.writes)) continue;
      const std::int64_t moved = tick + 1 - taker.lock.tick - starts_[taker.transaction];
      if (moved <= moved_[taker.transaction]) continue;
      if (moved_[taker.transaction] == 0) touched_.push_back(taker.transaction);
      delay += moved - moved_[taker.transaction];
      moved_[taker.transaction] = moved;
    }
  }
  for (const std::uint32_t one : touched_) moved_[one] = 0;
  touched_.clear();
  return delay;
}

}  // namespace orrery::policies
