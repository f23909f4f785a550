// The order in which transactions came: what a queue does.
#include "policies/transaction_order/transaction_order.hpp"

namespace orrery::policies {
namespace {

struct SequentialParams {
  bool reversed = false;
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("reversed", &SequentialParams::reversed,
                                      "Whether the order is reversed, the last transaction first.")};
  }
};

class Sequential final : public TransactionOrder {
 public:
  explicit Sequential(const SequentialParams& params) : reversed_(params.reversed) {}
  std::size_t next(const TransactionOrderView& view) override { return reversed_ ? view.left().size() - 1 : 0; }

 private:
  bool reversed_;
};

}  // namespace

void add_sequential_transactions(TransactionOrderRegistry& registry) {
  registry.add<SequentialParams>(
      "sequential", "Transactions in the order of their arrival.",
      [](const SequentialParams& params, sim::RandomStream) { return std::make_unique<Sequential>(params); });
}

}  // namespace orrery::policies
