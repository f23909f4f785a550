// An order by an expression: the transaction with the least value, the first of equals; one without a value (NaN) comes
// last. Names: transaction_score.hpp, `orrery describe expression`. `added` is shortest_makespan.
#include "policies/transaction_order/transaction_score.hpp"

namespace orrery::policies {
namespace {

struct TransactionExpressionParams {
  TransactionScore score{"added"};
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("score", &TransactionExpressionParams::score, "The transaction with the lowest value goes next.")};
  }
};

class TransactionExpression final : public TransactionOrder {
 public:
  explicit TransactionExpression(const TransactionExpressionParams& params) : score_(params.score) {}

  std::size_t next(const TransactionOrderView& view) override {
    std::size_t best = 0;
    std::int64_t least = key(view, 0);
    for (std::size_t i = 1; i < view.left().size(); ++i) {
      const std::int64_t other = key(view, i);
      if (other >= least) continue;
      least = other;
      best = i;
    }
    return best;
  }

 private:
  std::int64_t key(const TransactionOrderView& view, std::size_t place) const {
    const std::uint32_t index = view.left()[place];
    return score_key(score_({view, index, view.schedule.start_of(view.transactions[index])}));
  }

  TransactionScore score_;
};

}  // namespace

void add_transaction_expression(TransactionOrderRegistry& registry) {
  registry.add<TransactionExpressionParams>("expression",
                                            "The transaction with the lowest value of an expression goes next.",
                                            [](const TransactionExpressionParams& params, sim::RandomStream) {
                                              return std::make_unique<TransactionExpression>(params);
                                            });
}

}  // namespace orrery::policies
