// Runs a few candidates again and again, with seeds in common, until it is known which is best (selection.hpp). The
// candidates are the points that it is told of before it is asked (search.first), else all of the space but for the
// parameter that holds the seed.
#include "experiments/search/proposing.hpp"
#include "experiments/search/selection.hpp"

namespace orrery::experiments::search {
namespace {

class SelectDriver final : public Driver {
 public:
  SelectDriver(const SelectionParams& params, const DriverSetup& setup) : points_(*setup.space, setup.limits, params) {}

  std::vector<Proposal> ask(std::size_t most) override {
    if (!points_.begun()) {
      for (const Trial& trial : before_) points_.add(trial.proposal.point);
      points_.begin();
      tell(before_);
    }
    return proposals(most, [&] { return points_.next(); });
  }

  void tell(std::span<const Trial> trials) override {
    if (!points_.begun()) {
      before_.insert(before_.end(), trials.begin(), trials.end());
      return;
    }
    for (const Trial& trial : trials)
      if (trial.proposal.fidelity == 1) points_.hear(trial.proposal.point, trial.result);
  }

  std::vector<std::pair<std::string, double>> statistics() const override {
    double contending = 0;
    for (std::size_t i = 0; points_.begun() && i < points_.candidates().size(); ++i)
      contending += points_.selection().standing(i) == Standing::contending ? 1 : 0;
    return {{"candidates", static_cast<double>(points_.candidates().size())}, {"contending", contending}};
  }

 private:
  PointSelection points_;
  std::vector<Trial> before_;  ///< of which it was told before it was asked
};

}  // namespace

void add_select_driver(DriverRegistry& registry) {
  registry.add<SelectionParams>("select", "Repeats runs of candidates with new seeds until it is known which is best.",
                                [](const SelectionParams& params, const DriverSetup& setup) {
                                  return std::make_unique<SelectDriver>(params, setup);
                                });
}

}  // namespace orrery::experiments::search
