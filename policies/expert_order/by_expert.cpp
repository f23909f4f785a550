// One expert after another, as tokens chose them; of an expert all levels before the next expert's.
#include <numeric>

#include "policies/expert_order/expert_order.hpp"

namespace orrery::policies {
namespace {

class ByExpert final : public ExpertOrder {
 public:
  std::vector<std::size_t> order(std::span<const ExpertLoad> loads) const override {
    std::vector<std::size_t> out(loads.size());
    std::iota(out.begin(), out.end(), std::size_t{0});
    return out;
  }
};

}  // namespace

void add_by_expert_order(ExpertOrderRegistry& registry) {
  registry.add<sim::NoParams>("by_expert", "One expert after another, each with all of its bit levels.",
                              [](const sim::NoParams&) { return std::make_unique<ByExpert>(); });
}

}  // namespace orrery::policies
