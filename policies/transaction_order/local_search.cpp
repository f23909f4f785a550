// An order found by trying: from that of shortest makespan first, moves of one transaction to another place that do not
// lengthen the makespan. No rule for a running system, as it takes thousands of schedules; it shows what a rule leaves.
#include <algorithm>

#include "policies/transaction_order/transaction_order.hpp"

namespace orrery::policies {
namespace {

struct LocalSearchParams {
  std::int64_t moves = 20'000;
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("moves", &LocalSearchParams::moves, sim::Unit::count, sim::between(0, 10'000'000),
                                      "Number of moves that are tried, each at the cost of computing a schedule.")};
  }
};

/// The order of shortest makespan first, from the first transaction.
std::vector<std::uint32_t> greedy_order(std::span<const Transaction> transactions, std::size_t keys) {
  std::vector<std::uint32_t> left, order;
  for (std::uint32_t i = 0; i < transactions.size(); ++i) left.push_back(i);
  LockSchedule schedule(keys);
  while (!left.empty()) {
    const std::size_t place = order.empty() ? 0 : shortest_makespan_next(transactions, left, schedule);
    schedule.append(transactions[left[place]]);
    order.push_back(left[place]);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(place));
  }
  return order;
}

class LocalSearch final : public TransactionOrder {
 public:
  LocalSearch(const LocalSearchParams& params, sim::RandomStream random)
      : params_(params), random_(std::move(random)) {}

  std::size_t next(const TransactionOrderView& view) override {
    if (order_.empty()) search(view);
    return static_cast<std::size_t>(std::ranges::lower_bound(view.left(), order_[step_++]) - view.left().begin());
  }

 private:
  void search(const TransactionOrderView& view) {
    const std::size_t keys = view.contention.keys(), count = view.transactions.size();
    order_ = greedy_order(view.transactions, keys);
    std::int64_t least = makespan_of(view.transactions, order_, keys);
    std::vector<std::uint32_t> other;
    for (std::int64_t move = 0; move < params_.moves && count > 1; ++move) {
      const auto from = static_cast<std::ptrdiff_t>(random_.below(count));
      const auto to = static_cast<std::ptrdiff_t>(random_.below(count));
      other = order_;
      if (from < to) std::rotate(other.begin() + from, other.begin() + from + 1, other.begin() + to + 1);
      if (to < from) std::rotate(other.begin() + to, other.begin() + from, other.begin() + from + 1);
      const std::int64_t makespan = makespan_of(view.transactions, other, keys);
      if (makespan <= least) least = makespan, order_.swap(other);
    }
  }

  LocalSearchParams params_;
  sim::RandomStream random_;
  std::vector<std::uint32_t> order_;
  std::size_t step_ = 0;
};

}  // namespace

void add_local_search_transactions(TransactionOrderRegistry& registry) {
  registry.add<LocalSearchParams>("local_search", "The best order found by moving single transactions to other places.",
                                  [](const LocalSearchParams& params, sim::RandomStream random) {
                                    return std::make_unique<LocalSearch>(params, std::move(random));
                                  });
}

}  // namespace orrery::policies
