// 1 - t/T: what theory finds best where gradient norms stay as they are (Defazio et al., arXiv 2310.07831).
#include "policies/rate/rate.hpp"

namespace orrery::policies {
namespace {

class LinearRate final : public RateSchedule {
 public:
  std::vector<double> rates(const RateView& view) const override {
    return rates_of(view.steps, [](double z) { return 1 - z; });
  }
};

}  // namespace

void add_linear_rate(RateRegistry& registry) {
  registry.add<sim::NoParams>("linear", "Falls linearly to zero.",
                              [](const sim::NoParams&) { return std::make_unique<LinearRate>(); });
}

}  // namespace orrery::policies
