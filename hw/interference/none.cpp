// Nothing slows anything: work that runs at once takes as long as the longest.
#include "hw/interference/interference.hpp"

namespace orrery::hw {
namespace {

class NoInterference final : public Interference {
 public:
  PerActivity slower(ActivitySet /*running*/, CollectiveReach /*reach*/) const override { return {1, 1, 1, 1}; }
};

}  // namespace

void register_no_interference(InterferenceRegistry& registry) {
  registry.add<sim::NoParams>("none", "Work that runs at once takes as long as the longest.",
                              [](const sim::NoParams&) { return std::make_unique<NoInterference>(); });
}

}  // namespace orrery::hw
