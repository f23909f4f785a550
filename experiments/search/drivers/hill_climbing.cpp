// Hill climbing with restarts: neighbours of the best point so far, to which it moves when one is better. Steps of
// reals and long ranges halve when `patience` neighbours in a row were no better, and grow again with success; at the
// finest step (at once, where nothing has fine steps) it starts again from a random point. Source: Russell and Norvig,
// "Artificial Intelligence", random-restart hill climbing; the step rule is that of pattern search (Hooke and Jeeves
// 1961).
#include <algorithm>

#include "experiments/search/moves.hpp"

namespace orrery::experiments::search {
namespace {

struct HillClimbingParams {
  std::int64_t patience = 0;
  double width = 0.2;
  double min_width = 1e-4;

  static constexpr auto fields() {
    using P = HillClimbingParams;
    return sim::FieldTable{
        sim::field(
            "patience", &P::patience, sim::Unit::count, sim::at_least(0),
            "Neighbours tried without success before the step halves or the climb restarts; 0: four per parameter."),
        sim::field("width", &P::width, sim::Unit::ratio, sim::between(1e-9, 1),
                   "Initial and largest step, as a share of a parameter's range."),
        sim::field("min_width", &P::min_width, sim::Unit::ratio, sim::between(1e-12, 1),
                   "A climb ends when its step falls below this.")};
  }
};

class HillClimbingDriver final : public StreamDriver {
 public:
  HillClimbingDriver(const HillClimbingParams& params, const DriverSetup& setup)
      : params_(params), space_(*setup.space), random_(setup.random), fine_(has_fine_steps(space_)) {
    if (params_.patience == 0) params_.patience = 4 * static_cast<std::int64_t>(space_.size());
    width_ = params_.width;
  }

  std::vector<Proposal> ask(std::size_t most) override {
    std::vector<Proposal> batch;
    while (here_ && batch.size() < most) {
      auto next = neighbour(space_, here_->proposal.point, width_, random_);
      if (!next) break;
      batch.push_back({*std::move(next)});
    }
    if (!batch.empty()) return batch;
    here_.reset();
    if (auto start = space_.sample(random_)) batch.push_back({*std::move(start)});
    return batch;
  }

  void tell(std::span<const Trial> trials) override {
    for (const Trial& trial : trials) {
      if (!here_ || better(trial.result, here_->result)) {
        if (here_) width_ = std::min(params_.width, width_ * 2);
        here_ = trial;
        failures_ = 0;
      } else if (++failures_ >= params_.patience) {
        failures_ = 0;
        width_ /= 2;
        if (!fine_ || width_ < params_.min_width) return restart();
      }
    }
  }

  std::vector<std::pair<std::string, double>> statistics() const override {
    return {{"restarts", static_cast<double>(restarts_)}, {"width", width_}};
  }

 private:
  void restart() {
    here_.reset();
    width_ = params_.width;
    ++restarts_;
  }

  HillClimbingParams params_;
  const Space& space_;
  sim::RandomStream random_;
  bool fine_;
  std::optional<Trial> here_;
  double width_ = 0;
  std::int64_t failures_ = 0, restarts_ = 0;
};

}  // namespace

void add_hill_climbing_driver(DriverRegistry& registry) {
  registry.add<HillClimbingParams>("hill_climbing", "Moves to better neighbours; restarts at random when none is left.",
                                   [](const HillClimbingParams& params, const DriverSetup& setup) {
                                     return std::make_unique<HillClimbingDriver>(params, setup);
                                   });
}

}  // namespace orrery::experiments::search
