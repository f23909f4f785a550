// gamma: independent gamma gaps of mean 1 / rate and coefficient of variation cv: shape 1 / cv^2, scale cv^2 / rate.
// cv = 1 is Poisson, above it arrivals come in bursts, below it they are more even.
#include "traces/arrivals/arrivals.hpp"

namespace orrery::traces::arrivals {
namespace {

struct GammaParams {
  double rate = 1.0;
  double cv = 1.0;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("rate", &GammaParams::rate, sim::Unit::per_s, kRates, "Mean arrivals per second."),
        sim::field("cv", &GammaParams::cv, sim::Unit::ratio, sim::between(0.01, 100),
                   "Coefficient of variation of the gaps between arrivals; 1 is Poisson.")};
  }
};

class Gamma final : public ArrivalProcess {
 public:
  explicit Gamma(const GammaParams& params)
      : shape_(1 / (params.cv * params.cv)), scale_s_(params.cv * params.cv / params.rate) {}
  std::int64_t next(std::int64_t previous_ns, sim::RandomStream& random) override {
    return advance(previous_ns, random.gamma(shape_, scale_s_));
  }

 private:
  double shape_;
  double scale_s_;
};

}  // namespace

void add_gamma(ArrivalRegistry& registry) {
  registry.add<GammaParams>("gamma", "Independent gamma-distributed gaps: bursty above cv 1, more even below.",
                            [](const GammaParams& params) { return std::make_unique<Gamma>(params); });
}

}  // namespace orrery::traces::arrivals
