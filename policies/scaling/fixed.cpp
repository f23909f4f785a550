// All replicas are up, always.
#include "policies/scaling/scaling.hpp"

namespace orrery::policies {
namespace {

class FixedScaling final : public Scaling {
 public:
  std::int64_t wanted(const ScalingView& view) override { return view.most; }
};

}  // namespace

void add_fixed_scaling(ScalingRegistry& registry) {
  registry.add<sim::NoParams>("fixed", "All replicas are always up.",
                              [](const sim::NoParams&) { return std::make_unique<FixedScaling>(); });
}

}  // namespace orrery::policies
