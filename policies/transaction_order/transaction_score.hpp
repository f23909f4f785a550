// Scores of transactions: the names that an expression over a remaining transaction may use.
#pragma once

#include <algorithm>

#include "policies/base/expression.hpp"
#include "policies/transaction_order/transaction_order.hpp"

namespace orrery::policies {

struct TransactionFacts {
  const TransactionOrderView& view;
  std::uint32_t index;
  std::int64_t start;  ///< its first tick if it went next

  const Transaction& transaction() const { return view.transactions[index]; }
  std::int64_t end() const { return start + transaction().length - 1; }
  /// Other locks left on that key that cannot meet this one.
  std::int64_t rivals(const LockUse& lock) const {
    return lock.writes ? view.contention.takers(lock.key) - 1 : view.contention.writers(lock.key);
  }
  /// Ticks between the lock and the one that it had to wait for.
  std::int64_t gap(const LockUse& lock) const { return start + lock.tick - 1 - view.schedule.taken_until(lock); }
  std::int64_t writes() const { return std::ranges::count_if(transaction().locks, &LockUse::writes); }
  template <class Value>
  double sum(const Value& value) const {
    std::int64_t all = 0;
    for (const LockUse& lock : transaction().locks) all += value(lock);
    return static_cast<double>(all);
  }
};

template <>
struct ExpressionNames<TransactionFacts> {
  using F = const TransactionFacts&;
  using U = sim::Unit;
  static constexpr double number(std::int64_t count) { return static_cast<double>(count); }
  static constexpr std::array names{
      ExpressionName<TransactionFacts>{
          {"added", U::none, "Ticks by which the makespan would grow if the transaction went next.", true},
          [](F f) { return number(std::max<std::int64_t>(0, f.end() - f.view.schedule.makespan())); }},
      ExpressionName<TransactionFacts>{
          {"delay", U::none,
           "Ticks by which the other remaining transactions would have to start later, summed over them.", true},
          [](F f) { return number(f.view.contention.delay_of(f.index, f.view.schedule)); }},
      ExpressionName<TransactionFacts>{
          {"demand", U::none,
           "Locks of other remaining transactions that each of its locks delays, summed over its locks.", true},
          [](F f) { return f.sum([&](const LockUse& lock) { return f.rivals(lock); }); }},
      ExpressionName<TransactionFacts>{{"end", U::none, "Last tick of the transaction if it went next.", true},
                                       [](F f) { return number(f.end()); }},
      ExpressionName<TransactionFacts>{
          {"idle", U::none,
           "Ticks between each of its locks and the previous lock on the same key, summed over its locks.", true},
          [](F f) { return f.sum([&](const LockUse& lock) { return f.gap(lock); }); }},
      ExpressionName<TransactionFacts>{{"left", U::count, "Number of remaining transactions.", true},
                                       [](F f) { return number(std::ssize(f.view.left())); }},
      ExpressionName<TransactionFacts>{{"length", U::none, "Ticks that the transaction takes."},
                                       [](F f) { return number(f.transaction().length); }},
      ExpressionName<TransactionFacts>{{"locks", U::count, "Number of locks that the transaction takes."},
                                       [](F f) { return number(std::ssize(f.transaction().locks)); }},
      ExpressionName<TransactionFacts>{
          {"makespan", U::none, "Makespan of the transactions ordered so far, in ticks.", true},
          [](F f) { return number(f.view.schedule.makespan()); }},
      ExpressionName<TransactionFacts>{{"order", U::none, "Number of the transaction in the order of arrival."},
                                       [](F f) { return number(f.index); }},
      ExpressionName<TransactionFacts>{{"start", U::none, "First tick of the transaction if it went next.", true},
                                       [](F f) { return number(f.start); }},
      ExpressionName<TransactionFacts>{
          {"waste", U::none,
           "Like `idle`, with the ticks of each lock multiplied by the number of remaining locks that it delays.",
           true},
          [](F f) { return f.sum([&](const LockUse& lock) { return f.gap(lock) * f.rivals(lock); }); }},
      ExpressionName<TransactionFacts>{{"writes", U::count, "Number of locks that the transaction takes for writing."},
                                       [](F f) { return number(f.writes()); }}};
};

using TransactionScore = Expression<TransactionFacts>;

}  // namespace orrery::policies
