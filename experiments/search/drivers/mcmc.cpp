// Markov chain Monte Carlo: Metropolis and Hastings (1953, 1970) on exp(-objective / temperature) over the unit cube,
// several chains side by side. Points come with the frequency that this density gives them, so that the trials show
// which region is good, not one point alone.
//
// A chain's state is a place of the unit cube. A move changes one coordinate by a normal step reflected at the ends, or
// draws a categorical one anew: both are symmetric, so no correction is due. A move that is not allowed, fails or
// violates limits more is refused; one that stays within the same point is taken without a trial. In the burn-in steps
// adapt to a share of acceptance of about 0.3, and the temperature, if none is given, is the spread of the objective
// over the chains' first points. Statistics cover what follows the burn-in: acceptance, the mean objective, Gelman and
// Rubin's R over chains (near 1: they agree), and the effective number of independent samples by batch means.
#include <algorithm>
#include <cmath>
#include <optional>

#include "experiments/search/waiting.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::search {
namespace {

struct McmcParams {
  std::int64_t chains = 4;
  double temperature = 0;
  double width = 0.2;
  double burn_in = 0.2;

  static constexpr auto fields() {
    using P = McmcParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("chains", &P::chains, Unit::count, sim::between(1, 1000), "Number of parallel chains."),
        sim::field(
            "temperature", &P::temperature, Unit::none, sim::at_least(0),
            "Temperature of the density, in units of the objective; 0: a tenth of its spread over the first points."),
        sim::field("width", &P::width, Unit::ratio, sim::between(1e-9, 1),
                   "Initial step, as a share of a parameter's range."),
        sim::field("burn_in", &P::burn_in, Unit::ratio, sim::between(0, 1),
                   "Share of the budget in which steps adapt and which statistics leave out.")};
  }
};

struct Chain {
  std::vector<double> place, moved;  ///< of the unit cube: where it is, where it asks to go
  std::optional<Trial> here;
  double width = 0;
  std::vector<double> samples;  ///< objective after each move past the burn-in
  std::int64_t moves = 0, accepted = 0;
};

double sample_mean(std::span<const double> x) {
  double sum = 0;
  for (const double xi : x) sum += xi;
  return x.empty() ? 0 : sum / static_cast<double>(x.size());
}
double sample_variance(std::span<const double> x) {
  const double mean = sample_mean(x);
  double sum = 0;
  for (const double xi : x) sum += (xi - mean) * (xi - mean);
  return x.size() < 2 ? 0 : sum / static_cast<double>(x.size() - 1);
}

class McmcDriver final : public StreamDriver {
 public:
  McmcDriver(const McmcParams& params, const DriverSetup& setup)
      : params_(params),
        space_(*setup.space),
        random_(setup.random),
        chains_(static_cast<std::size_t>(params.chains)),
        whose_(space_) {
    burn_in_ = static_cast<std::int64_t>(params_.burn_in * static_cast<double>(setup.budget));
    for (Chain& chain : chains_) chain.width = params_.width;
  }

  std::vector<Proposal> ask(std::size_t most) override {
    whose_.begin();
    std::vector<Proposal> batch;
    const std::size_t free = chains_.size() - whose_.size();
    for (std::size_t k = 0; k < chains_.size() && batch.size() < std::min(most, free); ++k) {
      const std::size_t c = turn_++ % chains_.size();
      auto point = chains_[c].here ? move(chains_[c]) : start(chains_[c]);
      if (!point) break;
      whose_.add(*point, c);
      batch.push_back({*std::move(point)});
    }
    return batch;
  }

  /// While some chain has no point out: results come in the order of proposal, so it is the one whose turn is next.
  bool can_ask(std::span<const Proposal> out) override {
    whose_.keep(out);
    return whose_.size() < chains_.size();
  }

  void tell(std::span<const Trial> trials) override {
    for (const Trial& trial : trials) {
      ++told_;
      if (const auto chain = whose_.take(trial.proposal.point)) hear(chains_[*chain], trial);
    }
    if (temperature_ == 0) set_temperature();
  }

  std::vector<std::pair<std::string, double>> statistics() const override {
    double accepted = 0, moves = 0, within = 0, effective = 0;
    std::vector<double> means;
    std::size_t shortest = chains_[0].samples.size();
    for (const Chain& chain : chains_) shortest = std::min(shortest, chain.samples.size());
    for (const Chain& chain : chains_) {
      const std::span<const double> samples = std::span(chain.samples).last(shortest);
      accepted += static_cast<double>(chain.accepted);
      moves += static_cast<double>(chain.moves);
      means.push_back(sample_mean(samples));
      within += sample_variance(samples) / static_cast<double>(chains_.size());
      effective += effective_samples(samples);
    }
    const auto n = static_cast<double>(shortest);
    const double r = within > 0 && n > 1 ? std::sqrt((n - 1) / n + sample_variance(means) / within) : 0;
    return {{"acceptance", moves > 0 ? accepted / moves : 0},
            {"mean_objective", sample_mean(means)},
            {"gelman_rubin", r},
            {"effective_samples", effective},
            {"temperature", temperature_}};
  }

 private:
  static constexpr int kStays = 1000;  ///< moves in a row without a trial, before a chain lets others go on

  std::optional<Point> start(Chain& chain) {
    auto point = space_.sample(random_);
    if (point) chain.moved = space_.to_units(*point);
    return point;
  }

  /// The next move that needs a trial; those that need none are made on the way.
  std::optional<Point> move(Chain& chain) {
    for (int i = 0; i < kStays; ++i) {
      chain.moved = chain.place;
      const std::size_t p = random_.below(space_.size());
      chain.moved[p] = space_.parameters()[p].kind == ParameterKind::categorical
                           ? random_.uniform()
                           : reflected(chain.place[p] + random_.normal(0, chain.width));
      Point point = space_.from_units(chain.moved);
      const bool stays = space_.key(point) == space_.key(chain.here->proposal.point);
      if (!stays && space_.allowed(point)) return point;
      if (stays) chain.place = chain.moved;
      count(chain, stays);
    }
    return start(chain);
  }
  static double reflected(double u) {
    u = std::abs(u);
    u -= 2 * std::floor(u / 2);
    return u > 1 ? 2 - u : u;
  }

  void hear(Chain& chain, const Trial& trial) {
    if (!chain.here) {
      chain.here = trial;
      chain.place = chain.moved;
      return;
    }
    const bool taken = accepts(chain.here->result, trial.result);
    if (taken) {
      chain.here = trial;
      chain.place = chain.moved;
    }
    count(chain, taken);
  }
  bool accepts(const Evaluation& from, const Evaluation& to) {
    const double over = to.violation(), over_from = from.violation();
    if (over != over_from) return over < over_from;
    if (!to.ok() || !from.ok()) return true;
    const double worse = to.objectives[0] - from.objectives[0];
    return worse <= 0 || (temperature_ > 0 && random_.uniform() < sim::det_exp(-worse / temperature_));
  }
  void count(Chain& chain, bool taken) {
    if (told_ < burn_in_) {  // Robbins and Monro towards 0.3
      chain.width = std::clamp(chain.width * sim::det_exp(taken ? 0.14 : -0.06), 1e-4, 1.0);
      return;
    }
    ++chain.moves;
    chain.accepted += taken ? 1 : 0;
    if (chain.here->result.ok()) chain.samples.push_back(chain.here->result.objectives[0]);
  }
  void set_temperature() {
    if (params_.temperature > 0) {
      temperature_ = params_.temperature;
      return;
    }
    std::vector<double> first;
    for (const Chain& chain : chains_) {
      if (!chain.here) return;
      if (chain.here->result.ok()) first.push_back(chain.here->result.objectives[0]);
    }
    const double spread = std::sqrt(sample_variance(first));
    temperature_ = spread > 0 ? spread / 10 : 1;
  }
  /// n times the variance over that of a mean of n, the latter from batches of root n.
  static double effective_samples(std::span<const double> x) {
    const auto batch = static_cast<std::size_t>(std::sqrt(static_cast<double>(x.size())));
    if (batch < 4) return 0;
    std::vector<double> means;
    for (std::size_t i = 0; i + batch <= x.size(); i += batch) means.push_back(sample_mean(x.subspan(i, batch)));
    const double of_means = sample_variance(means) * static_cast<double>(batch);
    return of_means > 0 ? static_cast<double>(x.size()) * std::min(1.0, sample_variance(x) / of_means) : 0;
  }

  McmcParams params_;
  const Space& space_;
  sim::RandomStream random_;
  std::vector<Chain> chains_;
  Waiting<std::size_t> whose_;  ///< chain of each proposal
  std::size_t turn_ = 0;
  std::int64_t told_ = 0, burn_in_ = 0;
  double temperature_ = 0;
};

}  // namespace

void add_mcmc_driver(DriverRegistry& registry) {
  registry.add<McmcParams>(
      "mcmc", "Metropolis-Hastings chains at a temperature, with statistics.",
      [](const McmcParams& params, const DriverSetup& setup) { return std::make_unique<McmcDriver>(params, setup); });
}

}  // namespace orrery::experiments::search
