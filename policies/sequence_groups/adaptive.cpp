// The best single degree of each batch (FlexSP's baseline BatchAda).
#include "policies/sequence_groups/sequence_groups.hpp"

namespace orrery::policies {
namespace {

class AdaptiveGroups final : public SequenceGrouping {
 public:
  BatchPlan plan(const SequenceView& view) const override {
    BatchPlan best;
    for (std::int64_t degree = 1; degree <= view.most_degree(); degree *= 2) {
      BatchPlan one = single_degree_plan(view, degree);
      if (!one.empty() && (best.empty() || plan_s(view, one) < plan_s(view, best))) best = std::move(one);
    }
    return best;
  }
};

}  // namespace

void add_adaptive_groups(SequenceGroupingRegistry& registry) {
  registry.add<sim::NoParams>("adaptive", "The best single degree of sequence parallelism for each batch.",
                              [](const sim::NoParams&) { return std::make_unique<AdaptiveGroups>(); });
}

}  // namespace orrery::policies
