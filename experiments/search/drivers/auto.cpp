// Looks at space, objectives and budget, and chooses: what somebody takes who does not want to choose.
//
//   every point fits the budget            grid
//   two objectives, budget to 500          bayesian, beyond nsga2
//   more objectives, budget to 150         bayesian, beyond nsga3
//   one objective                          bayesian for the first 300 points (all, where the budget is at most 400);
//                                          then, told all of them, in turns: trust_region, and cma_es where all
//                                          parameters are reals without conditions, else annealing
//
// A proposal of `bayesian` costs milliseconds and grows with the points; of the others microseconds. statistics() tells
// which one is at work by its place in this list.
#include <algorithm>

#include "experiments/search/driver.hpp"

namespace orrery::experiments::search {
namespace {

struct AutoParams {
  std::int64_t modelled = 300, objectives_budget = 500;
  static constexpr auto fields() {
    using sim::Unit;
    using A = AutoParams;
    return sim::FieldTable{
        sim::field("modelled", &A::modelled, Unit::count, sim::between(1, 5000),
                   "With one objective: first points, proposed by `bayesian`; a budget up to a third larger is left to "
                   "it entirely."),
        sim::field("objectives_budget", &A::objectives_budget, Unit::count, sim::at_least(0),
                   "With two objectives: largest budget left to `bayesian`; with more, three tenths of this.")};
  }
};

class AutoDriver final : public StreamDriver {
 public:
  AutoDriver(const AutoParams& params, const DriverSetup& setup) : setup_(setup) {
    register_drivers(registry_);
    const std::int64_t budget = setup.budget;
    const auto points = setup.space->grid_size();
    if (points && budget > 0 && *points <= static_cast<std::uint64_t>(budget)) {
      use("grid", 0);
    } else if (setup.objectives > 1) {
      const bool two = setup.objectives == 2;
      const bool modelled = budget <= (two ? params.objectives_budget : params.objectives_budget * 3 / 10);
      use(modelled ? "bayesian" : two ? "nsga2" : "nsga3", modelled ? 1 : two ? 2 : 5);
    } else {
      use("bayesian", 1);
      if (budget > params.modelled + params.modelled / 3) switch_at_ = params.modelled;
    }
  }

  std::vector<Proposal> ask(std::size_t most) override {
    switch_if_due();
    if (other_) std::swap(inner_, other_);
    return inner_->ask(most);
  }

  bool can_ask(std::span<const Proposal> out) override {
    switch_if_due();
    return (other_ ? other_ : inner_)->can_ask(out);
  }

  void tell(std::span<const Trial> trials) override {
    if (switch_at_ > 0) told_.insert(told_.end(), trials.begin(), trials.end());
    inner_->tell(trials);
    if (other_) other_->tell(trials);
  }

  std::vector<std::pair<std::string, double>> statistics() const override {
    std::vector<std::pair<std::string, double>> all = inner_->statistics();
    all.insert(all.begin(), {"chosen", chosen_});
    return all;
  }

 private:
  void switch_if_due() {
    if (switch_at_ == 0 || std::ssize(told_) < switch_at_) return;
    switch_at_ = 0;
    const bool reals = std::ranges::all_of(
        setup_.space->parameters(), [](const Parameter& p) { return p.kind == ParameterKind::real && !p.counts; });
    const bool both = reals && setup_.limits == 0;
    use(both ? "cma_es" : "annealing", both ? 3 : 4);
    inner_->tell(told_);
    other_ = made("trust_region");
    other_->tell(told_);
    told_.clear();
  }
  void use(const std::string& name, double place) {
    inner_ = made(name);
    chosen_ = place;
  }

  std::unique_ptr<Driver> made(const std::string& name) const {
    sim::Faults faults;
    const auto choice = registry_.prepare(name, nullptr, {}, faults);
    faults.throw_if_any();
    DriverSetup own = setup_;
    own.random = setup_.random.child(name);
    return choice.make(std::move(own));
  }

  DriverSetup setup_;
  DriverRegistry registry_{"driver"};
  std::unique_ptr<Driver> inner_, other_;  ///< that is asked; the one whose turn is next, if there are two
  std::vector<Trial> told_;                ///< until it switches
  std::int64_t switch_at_ = 0;
  double chosen_ = 0;
};

}  // namespace

void add_auto_driver(DriverRegistry& registry) {
  registry.add<AutoParams>(
      "auto", "Chooses a driver by space, objectives and budget, and switches after many points.",
      [](const AutoParams& params, const DriverSetup& setup) { return std::make_unique<AutoDriver>(params, setup); });
}

}  // namespace orrery::experiments::search
