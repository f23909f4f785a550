// fixed: request k (from 1) arrives at k / rate, rounded to the nanosecond; the rounding does not add up.
#include <cmath>

#include "traces/arrivals/arrivals.hpp"

namespace orrery::traces::arrivals {
namespace {

struct FixedParams {
  double rate = 1.0;
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("rate", &FixedParams::rate, sim::Unit::per_s, kRates, "Arrivals per second.")};
  }
};

class Fixed final : public ArrivalProcess {
 public:
  explicit Fixed(const FixedParams& params) : rate_(params.rate) {}
  std::int64_t next(std::int64_t, sim::RandomStream&) override {
    ++count_;
    return advance(0, static_cast<double>(count_) / rate_);
  }

 private:
  double rate_;
  std::int64_t count_ = 0;
};

}  // namespace

void add_fixed(ArrivalRegistry& registry) {
  registry.add<FixedParams>("fixed", "Evenly spaced: request k arrives at k / rate.",
                            [](const FixedParams& params) { return std::make_unique<Fixed>(params); });
}

}  // namespace orrery::traces::arrivals
