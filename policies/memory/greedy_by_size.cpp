// Greedy by size: the largest buffer first, each at the lowest offset that is free for its whole lifetime. Needs all
// lifetimes beforehand; the usual planner of inference runtimes (Pisarchyk and Lee 2020, "Efficient memory management
// for deep neural net inference").
#include "policies/memory/ordered.hpp"
#include "policies/memory/planner.hpp"

namespace orrery::policies {
namespace {

class GreedyBySize final : public MemoryPlanner {
  std::vector<std::int64_t> place(std::span<const Buffer> buffers) const override {
    return place_in_order(buffers, order_by(buffers, "zw"));
  }
};

}  // namespace

void add_greedy_by_size(MemoryPlannerRegistry& registry) {
  registry.add<sim::NoParams>("greedy_by_size", "The largest buffer first, each at the lowest offset that is free.",
                              [](const sim::NoParams&) { return std::make_unique<GreedyBySize>(); });
}

}  // namespace orrery::policies
