// The base of all experts first, then every level above it in turn.
#include <algorithm>
#include <numeric>

#include "policies/expert_order/expert_order.hpp"

namespace orrery::policies {
namespace {

class ByLevel final : public ExpertOrder {
 public:
  std::vector<std::size_t> order(std::span<const ExpertLoad> loads) const override {
    std::vector<std::size_t> out(loads.size());
    std::iota(out.begin(), out.end(), std::size_t{0});
    std::ranges::stable_sort(out, {}, [&](std::size_t i) { return loads[i].level; });
    return out;
  }
};

}  // namespace

void add_by_level_order(ExpertOrderRegistry& registry) {
  registry.add<sim::NoParams>("by_level", "The base level of all experts first, then each bit level above it.",
                              [](const sim::NoParams&) { return std::make_unique<ByLevel>(); });
}

}  // namespace orrery::policies
