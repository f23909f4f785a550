// CMA-ES with restarts (Hansen and Ostermeier 2001; restarts with a doubled population: Auger and Hansen 2005), in the
// unit cube, so that scales count. Integers, ordinals and categoricals are rounded; a margin keeps them alive: the
// deviation of such a coordinate never falls so low that the chance of leaving the value of the mean on either side is
// below one in (parameters * population) (after Hamano et al. 2022). Places outside the cube are drawn again, then
// clipped; so are points that are not allowed. A run ends when its steps or its values no longer differ, or its axes
// differ by 1e7; the next begins at a random point with twice the population. Categoricals are better served by
// `genetic` or `tpe`.
#include <algorithm>
#include <cmath>
#include <optional>

#include "experiments/search/cma.hpp"
#include "experiments/search/waiting.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::search {
namespace {

struct CmaEsParams {
  std::int64_t population = 0;
  double sigma = 0.3;
  double growth = 2;
  bool margin = true;
  double tolerance = 1e-9;

  static constexpr auto fields() {
    using P = CmaEsParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("population", &P::population, Unit::count, sim::between(0, 100'000),
                   "Points of a generation; 0: 4 + 3 ln(parameters)."),
        sim::field("sigma", &P::sigma, Unit::ratio, sim::between(1e-6, 1),
                   "Initial standard deviation, as a share of a parameter's range."),
        sim::field("growth", &P::growth, Unit::ratio, sim::between(1, 10),
                   "Factor by which the population grows with each restart."),
        sim::field("margin", &P::margin, "Whether integers and choices keep a minimum probability to change."),
        sim::field("tolerance", &P::tolerance, Unit::ratio, sim::between(0, 1),
                   "A run ends when its largest standard deviation falls below this.")};
  }
};

class CmaEsDriver final : public StreamDriver {
 public:
  CmaEsDriver(const CmaEsParams& params, const DriverSetup& setup)
      : params_(params), space_(*setup.space), random_(setup.random), steps_(space_) {
    const double usual = 4 + std::floor(3 * sim::det_log(static_cast<double>(std::max<std::size_t>(1, space_.size()))));
    lambda_ = params_.population > 0 ? static_cast<double>(params_.population) : usual;
  }

  std::vector<Proposal> ask(std::size_t most) override {
    steps_.begin();
    if (!cma_ && !begin()) return {};
    if (steps_.size() > 0) most = std::min(most, cma_->lambda() - waiting());
    std::vector<Proposal> batch;
    while (batch.size() < most) {
      auto [point, step] = sample();
      if (!point) break;
      steps_.add(*point, std::move(step));
      batch.push_back({*std::move(point)});
    }
    return batch;
  }

  /// Only within a generation: a step is one from the mean of its time.
  bool can_ask(std::span<const Proposal> out) override {
    steps_.keep(out);
    return steps_.size() == 0 || (cma_ && waiting() < cma_->lambda());
  }

  void tell(std::span<const Trial> trials) override {
    for (const Trial& trial : trials)
      if (auto step = steps_.take(trial.proposal.point)) heard_.push_back({trial.result, *std::move(step)});
    if (cma_ && heard_.size() >= cma_->lambda()) learn();
  }

  std::vector<std::pair<std::string, double>> statistics() const override {
    return {{"restarts", static_cast<double>(runs_ > 0 ? runs_ - 1 : 0)},
            {"sigma", cma_ ? cma_->sigma() : 0},
            {"population", std::floor(lambda_)}};
  }

 private:
  /// Of this generation: those with their results, and those that are out.
  std::size_t waiting() const { return heard_.size() + steps_.size(); }
  static constexpr int kTries = 100;  ///< places that are outside or not allowed before one is clipped or drawn

  struct Heard {
    Evaluation result;
    Eigen::VectorXd step;  ///< from the mean, in sigmas, before the margin stretched it
  };

  bool begin() {
    const auto start = space_.sample(random_);
    if (!start) return false;
    const std::vector<double> u = space_.to_units(*start);
    const Eigen::Map<const Eigen::VectorXd> mean(u.data(), static_cast<Eigen::Index>(u.size()));
    if (runs_++ > 0) lambda_ *= params_.growth;
    cma_.emplace(mean, params_.sigma, static_cast<std::size_t>(lambda_));
    stretch_ = Eigen::VectorXd::Ones(mean.size());
    set_margin();
    history_.clear();
    heard_.clear();
    return true;
  }

  std::pair<std::optional<Point>, Eigen::VectorXd> sample() {
    for (int i = 0; i < kTries; ++i) {
      Eigen::VectorXd step = cma_->draw(random_);
      const Eigen::VectorXd place = cma_->mean() + cma_->sigma() * step.cwiseProduct(stretch_);
      const bool outside = (place.array() < 0).any() || (place.array() > 1).any();
      if (outside && i < kTries / 2) continue;
      if (outside) step = step_to(place.cwiseMax(0).cwiseMin(1));
      Point point = space_.from_units(std::span(place.data(), static_cast<std::size_t>(place.size())));
      if (space_.allowed(point)) return {std::move(point), std::move(step)};
    }
    auto drawn = space_.sample(random_);
    if (!drawn) return {};
    const std::vector<double> u = space_.to_units(*drawn);
    return {std::move(drawn), step_to(Eigen::Map<const Eigen::VectorXd>(u.data(), std::ssize(u)))};
  }
  Eigen::VectorXd step_to(const Eigen::VectorXd& place) const {
    return (place - cma_->mean()).cwiseQuotient(stretch_) / cma_->sigma();
  }

  void learn() {
    std::stable_sort(heard_.begin(), heard_.end(),
                     [](const Heard& a, const Heard& b) { return better(a.result, b.result); });
    std::vector<Eigen::VectorXd> steps;
    for (Heard& heard : heard_) steps.push_back(std::move(heard.step));
    const bool flat = !better(heard_.front().result, heard_[heard_.size() * 7 / 10].result);
    const double best = heard_.front().result.ok() ? heard_.front().result.objectives[0] : 0;
    cma_->learn(steps, stretch_);
    heard_.clear();
    set_margin();
    if (over(flat, best)) cma_.reset();
  }

  /// Whether this run has come to its end.
  bool over(bool flat, double best) {
    const std::size_t window = 10 + 30 * space_.size() / cma_->lambda();
    flats_ = flat ? flats_ + 1 : 0;
    history_.push_back(best);
    if (cma_->largest() < params_.tolerance || cma_->elongation() > 1e7 || flats_ > 5) return true;
    if (history_.size() < 2 * window) return false;
    const auto [low, high] = std::minmax_element(history_.end() - static_cast<std::ptrdiff_t>(window), history_.end());
    return *high - *low <= 1e-13 * std::max(1e-300, std::abs(*low));
  }

  /// Stretches coordinates of whole numbers and choices whose chance to leave the mean's value is too small.
  void set_margin() {
    if (!params_.margin) return;
    const double chance = 1 / (static_cast<double>(space_.size()) * static_cast<double>(cma_->lambda()));
    const double quantile = normal_quantile(std::min(chance, 0.25));
    for (Eigen::Index i = 0; i < stretch_.size(); ++i) {
      stretch_[i] = 1;
      const auto p = static_cast<std::size_t>(i);
      const Parameter& parameter = space_.parameters()[p];
      if (parameter.kind == ParameterKind::real || parameter.levels() == 1U) continue;
      const double value = space_.from_unit(p, cma_->mean()[i]), top = last(parameter), bottom = first(parameter);
      const double middle = space_.to_unit(p, value), place = std::clamp(cma_->mean()[i], 0.0, 1.0);
      double gap = 0;  // to the further edge: a value can be left on either side
      for (const double side : {value - 1, value + 1})
        if (side >= bottom && side <= top)
          gap = std::max(gap, std::abs((middle + space_.to_unit(p, side)) / 2 - place));
      const double deviation = cma_->deviation(i);
      if (deviation * quantile < gap) stretch_[i] = gap / (quantile * deviation);
    }
  }
  /// q with P(normal > q) = chance, by bisection.
  static double normal_quantile(double chance) {
    double low = 0, high = 10;
    for (int i = 0; i < 50; ++i) {
      const double middle = (low + high) / 2;
      (sim::det_erfc(middle / std::sqrt(2.0)) / 2 > chance ? low : high) = middle;
    }
    return low;
  }
  static double first(const Parameter& p) { return p.has_choices() ? 0 : p.low; }
  static double last(const Parameter& p) {
    return p.has_choices() ? static_cast<double>(p.choices.size() - 1) : p.high;
  }

  CmaEsParams params_;
  const Space& space_;
  sim::RandomStream random_;
  double lambda_;
  std::optional<CmaDistribution> cma_;
  Eigen::VectorXd stretch_;
  Waiting<Eigen::VectorXd> steps_;
  std::vector<Heard> heard_;
  std::vector<double> history_;  ///< best value of each generation
  std::int64_t runs_ = 0, flats_ = 0;
};

}  // namespace

void add_cma_es_driver(DriverRegistry& registry) {
  registry.add<CmaEsParams>(
      "cma_es", "CMA-ES with full covariance and restarts; integers keep a margin.",
      [](const CmaEsParams& params, const DriverSetup& setup) { return std::make_unique<CmaEsDriver>(params, setup); });
}

}  // namespace orrery::experiments::search
