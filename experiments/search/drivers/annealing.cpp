// Simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983): neighbours that are worse by d are taken with probability
// exp(-d / T), and T falls geometrically over the budget. Temperatures are shares of the spread of the objective over
// the first random points, so that they need no knowledge of its scale. Steps shrink with the root of T. A batch is
// judged in order: each result against where the walk then stands. What violates limits more is never taken. The walk
// goes back to the best point when it has been `patience` proposals without finding a better one.
#include <algorithm>
#include <cmath>

#include "experiments/search/moves.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::search {
namespace {

struct AnnealingParams {
  double start = 0.3;
  double end = 1e-4;
  double width = 0.3;
  double min_width = 1e-3;
  std::int64_t warmup = 0;
  std::int64_t patience = 0;

  static constexpr auto fields() {
    using P = AnnealingParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("start", &P::start, Unit::ratio, sim::positive(),
                   "Initial temperature, in standard deviations of the objective over random points."),
        sim::field("end", &P::end, Unit::ratio, sim::positive(),
                   "Final temperature, in standard deviations of the objective over random points."),
        sim::field("width", &P::width, Unit::ratio, sim::between(1e-9, 1),
                   "Step at the initial temperature, as a share of a parameter's range."),
        sim::field("min_width", &P::min_width, Unit::ratio, sim::between(1e-12, 1),
                   "Smallest step, as a share of a parameter's range."),
        sim::field("warmup", &P::warmup, Unit::count, sim::at_least(0),
                   "Random points at the start; 0: a tenth of the budget, between 4 and 20."),
        sim::field(
            "patience", &P::patience, Unit::count, sim::at_least(0),
            "Proposals without a new best point before the walk returns to the best one; 0: a tenth of the budget.")};
  }
};

class AnnealingDriver final : public StreamDriver {
 public:
  AnnealingDriver(const AnnealingParams& params, const DriverSetup& setup)
      : params_(params),
        space_(*setup.space),
        budget_(std::max<std::int64_t>(setup.budget, 100)),
        random_(setup.random) {
    if (params_.warmup == 0) params_.warmup = std::clamp<std::int64_t>(budget_ / 10, 4, 20);
    if (params_.patience == 0) params_.patience = std::max<std::int64_t>(budget_ / 10, 20);
  }

  std::vector<Proposal> ask(std::size_t most) override {
    std::vector<Proposal> batch;
    while (batch.size() < most) {
      const bool warm = told_ + out_ + std::ssize(batch) < params_.warmup || !here_;
      auto next = warm ? space_.sample(random_) : neighbour(space_, here_->proposal.point, width(), random_);
      if (!next && !warm) next = space_.sample(random_);
      if (!next) break;
      batch.push_back({*std::move(next)});
    }
    return batch;
  }

  bool can_ask(std::span<const Proposal> out) override {
    out_ = std::ssize(out);
    return true;
  }
  void tell(std::span<const Trial> trials) override {
    for (const Trial& trial : trials) {
      if (told_++ < params_.warmup && trial.result.ok()) scale_.push_back(trial.result.objectives[0]);
      if (told_ == params_.warmup) set_spread();
      if (!best_ || better(trial.result, best_->result)) {
        best_ = trial;
        since_best_ = 0;
      } else if (++since_best_ > params_.patience) {
        here_ = best_;
        since_best_ = 0;
      }
      if (!here_ || accepts(trial.result)) {
        here_ = trial;
        ++accepted_;
      }
    }
  }

  std::vector<std::pair<std::string, double>> statistics() const override {
    const auto told = static_cast<double>(std::max<std::int64_t>(told_, 1));
    return {{"acceptance", static_cast<double>(accepted_) / told}, {"temperature", temperature() * spread_}};
  }

 private:
  /// In deviations of the objective.
  double temperature() const {
    const double left = static_cast<double>(std::max<std::int64_t>(1, budget_ - params_.warmup));
    const double done = std::clamp(static_cast<double>(told_ - params_.warmup) / left, 0.0, 1.0);
    return params_.start * sim::det_exp(done * sim::det_log(params_.end / params_.start));
  }
  double width() const { return std::max(params_.min_width, params_.width * std::sqrt(temperature() / params_.start)); }

  bool accepts(const Evaluation& result) {
    const double over = result.violation(), over_here = here_->result.violation();
    if (over != over_here) return over < over_here;
    if (!result.ok() || !here_->result.ok()) return true;  // both are lost: walk on
    const double worse = result.objectives[0] - here_->result.objectives[0];
    return worse <= 0 || random_.uniform() < sim::det_exp(-worse / (temperature() * spread_));
  }
  void set_spread() {
    double mean = 0, sum = 0;
    for (const double x : scale_) mean += x / static_cast<double>(scale_.size());
    for (const double x : scale_) sum += (x - mean) * (x - mean);
    if (sum > 0) spread_ = std::sqrt(sum / static_cast<double>(scale_.size()));
  }

  AnnealingParams params_;
  const Space& space_;
  std::int64_t budget_;
  sim::RandomStream random_;
  std::optional<Trial> here_, best_;
  std::vector<double> scale_;
  double spread_ = 1;
  std::int64_t told_ = 0, out_ = 0, since_best_ = 0, accepted_ = 0;
};

}  // namespace

void add_annealing_driver(DriverRegistry& registry) {
  registry.add<AnnealingParams>("annealing", "Simulated annealing, with a temperature schedule spread over the budget.",
                                [](const AnnealingParams& params, const DriverSetup& setup) {
                                  return std::make_unique<AnnealingDriver>(params, setup);
                                });
}

}  // namespace orrery::experiments::search
