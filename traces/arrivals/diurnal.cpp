// diurnal: a Poisson process whose rate follows the day,
//   rate(t) = rate (1 + (peak_to_mean - 1) sin(2 pi (t / period + phase))),
// drawn by thinning (Lewis and Shedler 1979): candidates come at the peak rate and each is kept with probability
// rate(t) / peak. A sine about the mean cannot peak past twice the mean without turning negative at night, hence the
// range.
#include "sim/base/math.hpp"
#include "traces/arrivals/arrivals.hpp"

namespace orrery::traces::arrivals {
namespace {

constexpr double kTwoPi = 6.283185307179586477;

struct DiurnalParams {
  double rate = 1.0;
  double peak_to_mean = 1.5;
  double period = 86400;
  double phase = 0;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field("rate", &DiurnalParams::rate, Unit::per_s, kRates, "Arrivals per second, averaged over a period."),
        sim::field("peak_to_mean", &DiurnalParams::peak_to_mean, Unit::ratio, sim::between(1, 2),
                   "Peak rate as a multiple of the mean rate."),
        sim::field("period", &DiurnalParams::period, Unit::seconds, sim::between(1e-3, 1e9),
                   "Length of the daily cycle."),
        sim::field(
            "phase", &DiurnalParams::phase, Unit::ratio, sim::between(0, 1),
            "Part of the period that has passed when the trace starts; 0: at the mean and rising; 0.25: at the peak.")};
  }
};

class Diurnal final : public ArrivalProcess {
 public:
  explicit Diurnal(const DiurnalParams& params)
      : swing_(params.peak_to_mean - 1),
        peak_(params.peak_to_mean),
        phase_(params.phase),
        period_ns_(static_cast<std::int64_t>(params.period * 1e9)),
        mean_gap_s_(1 / (params.rate * params.peak_to_mean)) {}

  std::int64_t next(std::int64_t previous_ns, sim::RandomStream& random) override {
    std::int64_t now = previous_ns;
    while (true) {
      now = advance(now, random.exponential(mean_gap_s_));
      const double part = static_cast<double>(now % period_ns_) / static_cast<double>(period_ns_);
      const double relative = 1 + swing_ * sim::det_sin(kTwoPi * (part + phase_));
      if (random.uniform() * peak_ < relative) return now;
    }
  }

 private:
  double swing_, peak_, phase_;
  std::int64_t period_ns_;
  double mean_gap_s_;
};

}  // namespace

void add_diurnal(ArrivalRegistry& registry) {
  registry.add<DiurnalParams>("diurnal", "Poisson process whose rate follows a daily sine.",
                              [](const DiurnalParams& params) { return std::make_unique<Diurnal>(params); });
}

}  // namespace orrery::traces::arrivals
