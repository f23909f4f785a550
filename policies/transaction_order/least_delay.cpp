// Least delay: of the transactions left, the one after which the others could start earliest, all together; of equals
// the first. Looks at what a transaction takes from the others, where shortest makespan first looks at itself. A rule
// of ours, found among expressions (docs/explain/transactions.md); it looks at every lock on a transaction's keys.
#include "policies/transaction_order/transaction_order.hpp"

namespace orrery::policies {
namespace {

class LeastDelay final : public TransactionOrder {
 public:
  std::size_t next(const TransactionOrderView& view) override {
    std::size_t best = 0;
    std::int64_t least = view.contention.delay_of(view.left()[0], view.schedule);
    for (std::size_t place = 1; place < view.left().size(); ++place) {
      const std::int64_t delay = view.contention.delay_of(view.left()[place], view.schedule);
      if (delay < least) best = place, least = delay;
    }
    return best;
  }
};

}  // namespace

void add_least_delay(TransactionOrderRegistry& registry) {
  registry.add<sim::NoParams>("least_delay", "The transaction that delays the others least goes next.",
                              [](const sim::NoParams&, sim::RandomStream) { return std::make_unique<LeastDelay>(); });
}

}  // namespace orrery::policies
