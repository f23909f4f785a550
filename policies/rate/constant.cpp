// The peak rate to the end.
#include "policies/rate/rate.hpp"

namespace orrery::policies {
namespace {

class ConstantRate final : public RateSchedule {
 public:
  std::vector<double> rates(const RateView& view) const override {
    return rates_of(view.steps, [](double) { return 1.0; });
  }
};

}  // namespace

void add_constant_rate(RateRegistry& registry) {
  registry.add<sim::NoParams>("constant", "Stays at the peak rate to the end.",
                              [](const sim::NoParams&) { return std::make_unique<ConstantRate>(); });
}

}  // namespace orrery::policies
