// Experts in the order of their numbers, equally many a GPU, as engines place them that know nothing of loads. Slots
// beyond one each hold the first experts again.
#include "policies/expert_placement/expert_placement.hpp"

namespace orrery::policies {
namespace {

struct ContiguousParams {
  static constexpr auto fields() { return sim::FieldTable<ContiguousParams, 0>(); }
};

class Contiguous final : public ExpertPlacement {
 public:
  std::vector<LayerPlacement> place(const ExpertPlacementView& view) const override {
    std::vector<std::int64_t> experts;
    for (std::int64_t slot = 0; slot < view.slots; ++slot) experts.push_back(slot % view.experts());
    return {view.loads.size(), even_slots(experts, view.gpus)};
  }
};

}  // namespace

void add_contiguous_expert_placement(ExpertPlacementRegistry& registry) {
  registry.add<ContiguousParams>("contiguous", "Experts in the order of their numbers, equally many on each GPU.",
                                 [](const ContiguousParams&) { return std::make_unique<Contiguous>(); });
}

}  // namespace orrery::policies
