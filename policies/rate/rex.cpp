// REX: (1 - z) / (1 - z/2), above the linear schedule and falling late (Chen et al., MLSys 2022).
#include "policies/rate/rate.hpp"

namespace orrery::policies {
namespace {

class RexRate final : public RateSchedule {
 public:
  std::vector<double> rates(const RateView& view) const override { return rates_of(view.steps, rex_rate); }
};

}  // namespace

double rex_rate(double z) {
  return (1 - z) / (1 - z / 2);
}

void add_rex_rate(RateRegistry& registry) {
  registry.add<sim::NoParams>("rex", "REX: stays above the linear schedule and falls late.",
                              [](const sim::NoParams&) { return std::make_unique<RexRate>(); });
}

}  // namespace orrery::policies
