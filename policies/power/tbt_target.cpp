// The lowest clock at which the next iteration still lasts no longer than a share of the run's target for the time
// between tokens; the highest where there is no such clock or no target. Energy falls with the voltage until the target
// binds.
#include "policies/power/power.hpp"

namespace orrery::policies {
namespace {

struct TbtTargetParams {
  double share = 0.8;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field(
        "share", &TbtTargetParams::share, sim::Unit::ratio, sim::between(0.01, 1),
        "Most that an iteration may last, as a share of slo.tbt; the rest is a margin for the host and surprises.")};
  }
};

class TbtTargetClock final : public ClockPolicy {
 public:
  explicit TbtTargetClock(const TbtTargetParams& params) : params_(params) {}

  std::int32_t choose(const ClockView& view) override {
    if (!view.tbt_ps || view.pricer == nullptr) return 0;
    const double most = params_.share * static_cast<double>(*view.tbt_ps);
    for (auto clock = static_cast<std::int32_t>(view.clocks_hz.size()) - 1; clock > 0; --clock)
      if (static_cast<double>(view.pricer->price(view.next, clock).time_ps) <= most) return clock;
    return 0;
  }
  bool holds() const override { return false; }  // contexts grow, and with them the time

 private:
  TbtTargetParams params_;
};

}  // namespace

void add_tbt_target_clock(ClockRegistry& registry) {
  registry.add<TbtTargetParams>("tbt_target", "The lowest clock that keeps the time between tokens within its target.",
                                [](const TbtTargetParams& params) { return std::make_unique<TbtTargetClock>(params); });
}

}  // namespace orrery::policies
