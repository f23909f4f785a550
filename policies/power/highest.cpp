// The highest clock, always: what a device does that is left alone.
#include "policies/power/power.hpp"

namespace orrery::policies {
namespace {

class HighestClock final : public ClockPolicy {
 public:
  std::int32_t choose(const ClockView&) override { return 0; }
};

}  // namespace

void add_highest_clock(ClockRegistry& registry) {
  registry.add<sim::NoParams>("highest", "Always the highest clock.",
                              [](const sim::NoParams&) { return std::make_unique<HighestClock>(); });
}

}  // namespace orrery::policies
