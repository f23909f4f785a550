// Transaction order: which of the transactions that are left is put down next.
//
// Asked until none is left. Contract: a place in `left`. An object decides one run.
#pragma once

#include <cstdint>
#include <span>

#include "policies/transaction_order/contention.hpp"
#include "policies/transaction_order/lock_schedule.hpp"
#include "sim/base/random.hpp"
#include "sim/base/registry.hpp"

namespace orrery::policies {

struct TransactionOrderView {
  std::span<const Transaction> transactions;
  const LockSchedule& schedule;  ///< of those that went before
  const Contention& contention;  ///< among those left, at least one

  /// Indices of those left, ascending.
  std::span<const std::uint32_t> left() const { return contention.left(); }
};

class TransactionOrder {
 public:
  virtual ~TransactionOrder() = default;
  virtual std::size_t next(const TransactionOrderView& view) = 0;
};

using TransactionOrderRegistry = sim::Registry<TransactionOrder, sim::RandomStream>;

/// Adds every policy of this folder (register.cpp: one line a policy).
void register_transaction_orders(TransactionOrderRegistry& registry);

}  // namespace orrery::policies
