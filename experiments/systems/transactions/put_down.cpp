#include "experiments/systems/transactions/put_down.hpp"

#include <stdexcept>

namespace orrery::experiments::transactions {

std::int64_t put_down(const Batch& batch, policies::TransactionOrder& policy,
                      const std::function<void(std::uint32_t, std::int64_t)>& visit) {
  policies::LockSchedule schedule(batch.keys);
  policies::Contention contention(batch.transactions, batch.keys);
  while (!contention.left().empty()) {
    const std::size_t place = policy.next({batch.transactions, schedule, contention});
    if (place >= contention.left().size()) throw std::logic_error("a transaction order chose what is not left");
    const std::uint32_t index = contention.take(place);
    const std::int64_t start = schedule.append(batch.transactions[index]);
    if (visit) visit(index, start);
  }
  return schedule.makespan();
}

}  // namespace orrery::experiments::transactions
