// A batch put down in the order that a policy gives.
#pragma once

#include <functional>

#include "experiments/systems/transactions/batch.hpp"
#include "policies/transaction_order/transaction_order.hpp"

namespace orrery::experiments::transactions {

/// Asks the policy until nothing is left, and returns the makespan. `visit`, which may be empty, is told each
/// transaction and its first tick. Throws std::logic_error where the policy chooses what is not left.
std::int64_t put_down(const Batch& batch, policies::TransactionOrder& policy,
                      const std::function<void(std::uint32_t index, std::int64_t start)>& visit = {});

}  // namespace orrery::experiments::transactions
