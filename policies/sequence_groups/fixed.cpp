// One degree for all batches, as sequence parallelism is commonly set up.
#include "policies/sequence_groups/sequence_groups.hpp"

namespace orrery::policies {
namespace {

struct FixedParams {
  std::int64_t degree = 1;
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("degree", &FixedParams::degree, sim::Unit::count, sim::between(1, 1 << 20),
                                      "Number of devices in a group, a power of two.")};
  }
};

class FixedGroups final : public SequenceGrouping {
 public:
  explicit FixedGroups(const FixedParams& params) : params_(params) {}
  BatchPlan plan(const SequenceView& view) const override {
    if (params_.degree > view.most_degree() || view.devices % params_.degree != 0) return {};
    return single_degree_plan(view, params_.degree);
  }

 private:
  FixedParams params_;
};

}  // namespace

void add_fixed_groups(SequenceGroupingRegistry& registry) {
  registry.add<FixedParams>("fixed", "One degree of sequence parallelism for all batches.",
                            [](const FixedParams& params) { return std::make_unique<FixedGroups>(params); });
}

}  // namespace orrery::policies
