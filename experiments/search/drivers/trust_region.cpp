// Descents by local quadratic models, one after the other from far places: reals and long ranges of integers that
// change a value smoothly. Where there is nothing of that kind, or no descent has anything left, points at random.
#include "experiments/search/local_quadratic.hpp"
#include "experiments/search/proposing.hpp"

namespace orrery::experiments::search {
namespace {

struct TrustRegionParams {
  std::int64_t initial = 4;
  double explore = 0.1;
  static constexpr auto fields() {
    using sim::Unit;
    using T = TrustRegionParams;
    return sim::FieldTable{
        sim::field("initial", &T::initial, Unit::count, sim::at_least(1), "Random points at the start."),
        sim::field("explore", &T::explore, Unit::ratio, sim::between(0, 1),
                   "Share of later points that are random; descents may begin at them.")};
  }
};

class TrustRegionDriver final : public StreamDriver {
 public:
  TrustRegionDriver(const TrustRegionParams& params, const DriverSetup& setup)
      : params_(params), space_(*setup.space), random_(setup.random), descent_(space_) {}

  std::vector<Proposal> ask(std::size_t most) override {
    bool free = !waits_;  // the descent has one point out at a time
    return proposals(most, [&]() -> std::optional<Point> {
      if (std::exchange(free, false) && told_ >= params_.initial && !random_.bernoulli(params_.explore))
        if (auto point = descent_.propose(known_)) {
          asked_ = space_.key(*point);
          return point;
        }
      return space_.sample(random_);
    });
  }

  bool can_ask(std::span<const Proposal> out) override {
    const auto own = [&](const Proposal& p) { return space_.key(p.point) == *asked_; };
    waits_ = asked_ && std::any_of(out.begin(), out.end(), own);
    return true;
  }
  void tell(std::span<const Trial> trials) override {
    for (const Trial& trial : trials) {
      ++told_;
      const bool sound = trial.result.feasible() && trial.proposal.fidelity == 1;
      const std::optional<double> value = sound ? std::optional(trial.result.objectives[0]) : std::nullopt;
      if (asked_ && *asked_ == space_.key(trial.proposal.point)) {
        descent_.tell(value);
        asked_.reset();
      }
      if (value) known_.push_back({trial.proposal.point, *value});
    }
  }

  std::vector<std::pair<std::string, double>> statistics() const override {
    return {{"descents", static_cast<double>(descent_.finished())}};
  }

 private:
  TrustRegionParams params_;
  const Space& space_;
  sim::RandomStream random_;
  LocalQuadratic descent_;
  std::vector<KnownValue> known_;
  std::optional<std::string> asked_;
  bool waits_ = false;  ///< for the value of the descent's point
  std::int64_t told_ = 0;
};

}  // namespace

void add_trust_region_driver(DriverRegistry& registry) {
  registry.add<TrustRegionParams>("trust_region", "Descents by local quadratic models, for smooth reals.",
                                  [](const TrustRegionParams& params, const DriverSetup& setup) {
                                    return std::make_unique<TrustRegionDriver>(params, setup);
                                  });
}

}  // namespace orrery::experiments::search
