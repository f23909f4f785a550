#include "policies/transaction_order/transaction_order.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_transaction_orders(TransactionOrderRegistry& registry) {
  void add_least_delay(TransactionOrderRegistry&); add_least_delay(registry);
  void add_local_search_transactions(TransactionOrderRegistry&); add_local_search_transactions(registry);
  void add_sequential_transactions(TransactionOrderRegistry&); add_sequential_transactions(registry);
  void add_shortest_makespan(TransactionOrderRegistry&); add_shortest_makespan(registry);
  void add_transaction_expression(TransactionOrderRegistry&); add_transaction_expression(registry);
}
// clang-format on

}  // namespace orrery::policies
