// UBA: one family from constant (phi towards 0) to cosine (phi = 2).
#include "policies/rate/rate.hpp"

namespace orrery::policies {
namespace {

struct UbaParams {
  double phi = 1;
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("phi", &UbaParams::phi, sim::Unit::none, sim::between(1e-6, 2),
                                      "Shape: 2 is the cosine schedule; towards 0 it is constant. It is tied to how "
                                      "ill-conditioned the loss landscape is.")};
  }
};

class UbaRate final : public RateSchedule {
 public:
  explicit UbaRate(const UbaParams& params) : params_(params) {}
  std::vector<double> rates(const RateView& view) const override {
    return rates_of(view.steps, [&](double z) { return uba_rate(z, params_.phi); });
  }

 private:
  UbaParams params_;
};

}  // namespace

double uba_rate(double z, double phi) {
  const double twice = 2 * cosine_rate(z);  // 1 + cos pi z
  return 2 * twice / (2 * phi + (2 - phi) * twice);
}

void add_uba_rate(RateRegistry& registry) {
  registry.add<UbaParams>("uba", "UBA: a family of schedules from constant to cosine.",
                          [](const UbaParams& params) { return std::make_unique<UbaRate>(params); });
}

}  // namespace orrery::policies
