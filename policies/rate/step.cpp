// Falls by a factor at some shares of the steps.
#include "policies/rate/rate.hpp"

namespace orrery::policies {
namespace {

struct StepParams {
  std::vector<double> at{0.5, 0.75};
  double factor = 0.1;
  static constexpr auto fields() {
    using S = StepParams;
    return sim::FieldTable{sim::field("at", &S::at, sim::Unit::ratio, sim::between(0, 1),
                                      "Points at which the rate falls, as shares of all steps."),
                           sim::field("factor", &S::factor, sim::Unit::ratio, sim::between(0, 1),
                                      "Factor that multiplies the rate at each of these points.")};
  }
};

class StepRate final : public RateSchedule {
 public:
  explicit StepRate(const StepParams& params) : params_(params) {}
  std::vector<double> rates(const RateView& view) const override {
    return rates_of(view.steps, [&](double z) {
      double rate = 1;
      for (const double at : params_.at)
        if (z > at) rate *= params_.factor;
      return rate;
    });
  }

 private:
  StepParams params_;
};

}  // namespace

void add_step_rate(RateRegistry& registry) {
  registry.add<StepParams>("step", "Falls by a factor at given points.",
                           [](const StepParams& params) { return std::make_unique<StepRate>(params); });
}

}  // namespace orrery::policies
