// Shortest makespan first: of the transactions left, or of a few drawn, the one after which the makespan is least
// (Cheng et al. 2024, "Towards Optimal Transaction Scheduling"); of equals the first. Looks no further than a step.
#include <algorithm>
#include <optional>

#include "policies/transaction_order/transaction_order.hpp"

namespace orrery::policies {
namespace {

struct ShortestMakespanParams {
  std::optional<std::int64_t> sample;
  bool from_first = true;
  static constexpr auto fields() {
    using P = ShortestMakespanParams;
    return sim::FieldTable{
        sim::field("sample", &P::sample, sim::Unit::count, sim::between(1, 1 << 20),
                   "Number of transactions drawn at each step, of which the best goes next; null: all that are left."),
        sim::field("from_first", &P::from_first, "Whether transaction 0 always goes first.")};
  }
};

class ShortestMakespan final : public TransactionOrder {
 public:
  ShortestMakespan(const ShortestMakespanParams& params, sim::RandomStream random)
      : params_(params), random_(std::move(random)) {}

  std::size_t next(const TransactionOrderView& view) override {
    const std::size_t all = view.left().size();
    if (params_.from_first && all == view.transactions.size()) return 0;
    const std::size_t looks = std::min(all, static_cast<std::size_t>(params_.sample.value_or(std::ssize(view.left()))));
    if (looks == all) return shortest_makespan_next(view.transactions, view.left(), view.schedule);
    drawn_.assign(view.left().begin(), view.left().end());
    for (std::size_t i = 0; i < looks; ++i) std::swap(drawn_[i], drawn_[i + random_.below(all - i)]);
    drawn_.resize(looks);
    std::ranges::sort(drawn_);
    const std::uint32_t best = drawn_[shortest_makespan_next(view.transactions, drawn_, view.schedule)];
    return static_cast<std::size_t>(std::ranges::lower_bound(view.left(), best) - view.left().begin());
  }

 private:
  ShortestMakespanParams params_;
  sim::RandomStream random_;
  std::vector<std::uint32_t> drawn_;
};

}  // namespace

void add_shortest_makespan(TransactionOrderRegistry& registry) {
  registry.add<ShortestMakespanParams>("shortest_makespan",
                                       "The transaction that adds least to the makespan goes next.",
                                       [](const ShortestMakespanParams& params, sim::RandomStream random) {
                                         return std::make_unique<ShortestMakespan>(params, std::move(random));
                                       });
}

}  // namespace orrery::policies
