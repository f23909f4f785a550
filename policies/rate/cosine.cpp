// (1 + cos pi z) / 2 (Loshchilov and Hutter, ICLR 2017, without restarts).
#include "policies/rate/rate.hpp"

#include <numbers>

#include "sim/base/math.hpp"

namespace orrery::policies {
namespace {

class CosineRate final : public RateSchedule {
 public:
  std::vector<double> rates(const RateView& view) const override { return rates_of(view.steps, cosine_rate); }
};

}  // namespace

double cosine_rate(double z) {
  return (1 + sim::det_cos(std::numbers::pi * z)) / 2;
}

void add_cosine_rate(RateRegistry& registry) {
  registry.add<sim::NoParams>("cosine", "Falls to zero along half a cosine.",
                              [](const sim::NoParams&) { return std::make_unique<CosineRate>(); });
}

}  // namespace orrery::policies
