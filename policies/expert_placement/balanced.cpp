// By load alone: experts in the order of falling load, each to the GPU with the least that has room; equally many a
// GPU. Slots beyond one each go, one by one, to the expert with the largest load a replica. It is EPLB's global policy
// (eplb.cpp) whatever groups and nodes there are.
#include "policies/expert_placement/eplb.hpp"

namespace orrery::policies {
namespace {

struct BalancedParams {
  static constexpr auto fields() { return sim::FieldTable<BalancedParams, 0>(); }
};

class Balanced final : public ExpertPlacement {
 public:
  std::vector<LayerPlacement> place(const ExpertPlacementView& view) const override {
    std::vector<LayerPlacement> out;
    for (const std::vector<double>& loads : view.loads)
      out.push_back(even_slots(eplb_slots(loads, {.slots = view.slots, .gpus = view.gpus}), view.gpus));
    return out;
  }
};

}  // namespace

void add_balanced_expert_placement(ExpertPlacementRegistry& registry) {
  registry.add<BalancedParams>("balanced",
                               "Places experts by load alone, over all GPUs, with replicas of the busiest experts.",
                               [](const BalancedParams&) { return std::make_unique<Balanced>(); });
}

}  // namespace orrery::policies
