// poisson: independent exponential gaps of mean 1 / rate. What many independent users make together, and the arrivals
// of every M/./. queue.
#include "traces/arrivals/arrivals.hpp"

namespace orrery::traces::arrivals {
namespace {

struct PoissonParams {
  double rate = 1.0;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("rate", &PoissonParams::rate, sim::Unit::per_s, kRates, "Mean arrivals per second.")};
  }
};

class Poisson final : public ArrivalProcess {
 public:
  explicit Poisson(const PoissonParams& params) : mean_gap_s_(1 / params.rate) {}
  std::int64_t next(std::int64_t previous_ns, sim::RandomStream& random) override {
    return advance(previous_ns, random.exponential(mean_gap_s_));
  }

 private:
  double mean_gap_s_;
};

}  // namespace

void add_poisson(ArrivalRegistry& registry) {
  registry.add<PoissonParams>("poisson", "Poisson process: independent exponential gaps.",
                              [](const PoissonParams& params) { return std::make_unique<Poisson>(params); });
}

}  // namespace orrery::traces::arrivals
