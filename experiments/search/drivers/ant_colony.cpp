// Ant colony: every value of every parameter carries pheromone; an ant draws a value of each parameter in proportion to
// it, the best ants of a generation and the best of all lay down more, the rest evaporates (Dorigo, Maniezzo, Colorni
// 1996; limits on pheromone from Stützle and Hoos 2000, so that no value dies out). ArchGym's baseline among heuristics
// (Krishnan et al. 2023). Reals and long ranges of integers are cut into bins, within which an ant draws uniformly,
// or, with chance `follow`, near the value that the best of all has there.
#include <algorithm>
#include <cmath>

#include "experiments/search/moves.hpp"
#include "experiments/search/proposing.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::search {
namespace {

struct AntColonyParams {
  std::int64_t ants = 16;
  double evaporation = 0.2;
  double greediness = 0.1;
  std::int64_t elite = 4;
  std::int64_t bins = 16;
  double follow = 0.5;
  double limit = 0.02;

  static constexpr auto fields() {
    using P = AntColonyParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("ants", &P::ants, Unit::count, sim::between(1, 100'000), "Points of a generation."),
        sim::field("evaporation", &P::evaporation, Unit::ratio, sim::between(0, 1),
                   "Share of the pheromone that evaporates with each generation."),
        sim::field("greediness", &P::greediness, Unit::ratio, sim::between(0, 1),
                   "Probability that an ant simply takes the value with the most pheromone."),
        sim::field(
            "elite", &P::elite, Unit::count, sim::between(1, 100'000),
            "Best ants of a generation that lay pheromone, better ones more; the best of all generations does too."),
        sim::field("bins", &P::bins, Unit::count, sim::between(2, 10'000),
                   "Bins that the range of a real or a long integer parameter is cut into."),
        sim::field("follow", &P::follow, Unit::ratio, sim::between(0, 1),
                   "Probability that an ant in the bin of the best value draws near that value."),
        sim::field("limit", &P::limit, Unit::ratio, sim::between(0, 1),
                   "Smallest share of pheromone of a value, relative to an even division.")};
  }
};

class AntColonyDriver final : public StreamDriver {
 public:
  AntColonyDriver(const AntColonyParams& params, const DriverSetup& setup)
      : params_(params), space_(*setup.space), random_(setup.random) {
    for (const Parameter& parameter : space_.parameters()) {
      const std::size_t values = is_fine(parameter) ? static_cast<std::size_t>(params_.bins) : *parameter.levels();
      trails_.emplace_back(values, 1.0 / static_cast<double>(values));
    }
  }

  std::vector<Proposal> ask(std::size_t most) override {
    return proposals(most, [&] { return walk(); });
  }

  void tell(std::span<const Trial> trials) override {
    for (const Trial& trial : trials) {
      ants_.push_back(trial);
      if (!best_ || better(trial.result, best_->result)) best_ = trial;
      if (std::ssize(ants_) >= params_.ants) lay();
    }
  }

  std::vector<std::pair<std::string, double>> statistics() const override {
    double top = 0;
    for (const auto& trail : trails_)
      top += *std::max_element(trail.begin(), trail.end()) / static_cast<double>(trails_.size());
    return {{"generations", static_cast<double>(generations_)}, {"mean_top_share", top}};
  }

 private:
  static constexpr int kTries = 200;  ///< walks that are not allowed before a random point is taken

  std::optional<Point> walk() {
    std::vector<double> u(space_.size());
    for (int i = 0; i < kTries; ++i) {
      for (std::size_t p = 0; p < u.size(); ++p) u[p] = place_in(p, choose(trails_[p]));
      Point point = space_.from_units(u);
      if (space_.allowed(point)) return point;
    }
    return space_.sample(random_);
  }
  std::size_t choose(const std::vector<double>& trail) {
    if (random_.bernoulli(params_.greediness))
      return static_cast<std::size_t>(std::max_element(trail.begin(), trail.end()) - trail.begin());
    double left = random_.uniform();
    for (std::size_t i = 0; i + 1 < trail.size(); ++i)
      if ((left -= trail[i]) < 0) return i;
    return trail.size() - 1;
  }
  /// A place of the unit interval within a bin (of a choice: its middle).
  double place_in(std::size_t p, std::size_t bin) {
    const auto bins = static_cast<double>(trails_[p].size());
    if (!is_fine(space_.parameters()[p])) return space_.to_unit(p, value_of(p, bin));
    const double low = static_cast<double>(bin) / bins, high = static_cast<double>(bin + 1) / bins;
    if (best_ && !std::isnan(best_->proposal.point[p]) && bin_of(p, best_->proposal.point[p]) == bin &&
        random_.bernoulli(params_.follow)) {
      const double width = sim::det_exp(-7 * random_.uniform()) / bins;  // coarse and fine alike
      return random_.truncated_normal(space_.to_unit(p, best_->proposal.point[p]), width, 0, 1);
    }
    return random_.uniform(low, high);
  }
  double value_of(std::size_t p, std::size_t bin) const {
    const Parameter& parameter = space_.parameters()[p];
    return static_cast<double>(bin) + (parameter.has_choices() ? 0 : parameter.low);
  }
  std::size_t bin_of(std::size_t p, double value) const {
    const Parameter& parameter = space_.parameters()[p];
    if (!is_fine(parameter)) return static_cast<std::size_t>(value - (parameter.has_choices() ? 0 : parameter.low));
    const auto bins = static_cast<double>(trails_[p].size());
    return std::min(trails_[p].size() - 1, static_cast<std::size_t>(space_.to_unit(p, value) * bins));
  }

  void lay() {
    std::stable_sort(ants_.begin(), ants_.end(),
                     [](const Trial& a, const Trial& b) { return better(a.result, b.result); });
    const std::size_t elite = std::min(ants_.size(), static_cast<std::size_t>(params_.elite));
    // What evaporates is laid again: half by the best of all, half by the elite, by rank.
    const double all = params_.evaporation, ranks = static_cast<double>(elite * (elite + 1)) / 2;
    for (std::size_t p = 0; p < trails_.size(); ++p) {
      for (double& share : trails_[p]) share *= 1 - all;
      add(p, best_->proposal.point[p], all / 2);
      for (std::size_t i = 0; i < elite; ++i)
        add(p, ants_[i].proposal.point[p], all / 2 * static_cast<double>(elite - i) / ranks);
      const double least = params_.limit / static_cast<double>(trails_[p].size());
      double sum = 0;
      for (double& share : trails_[p]) sum += share = std::max(share, least);
      for (double& share : trails_[p]) share /= sum;
    }
    ants_.clear();
    ++generations_;
  }
  void add(std::size_t p, double value, double amount) {
    if (!std::isnan(value)) trails_[p][bin_of(p, value)] += amount;
  }

  AntColonyParams params_;
  const Space& space_;
  sim::RandomStream random_;
  std::vector<std::vector<double>> trails_;  ///< shares of a parameter's values; they sum to 1
  std::vector<Trial> ants_;
  std::optional<Trial> best_;
  std::int64_t generations_ = 0;
};

}  // namespace

void add_ant_colony_driver(DriverRegistry& registry) {
  registry.add<AntColonyParams>("ant_colony", "Ant colony: pheromone on every value of every parameter.",
                                [](const AntColonyParams& params, const DriverSetup& setup) {
                                  return std::make_unique<AntColonyDriver>(params, setup);
                                });
}

}  // namespace orrery::experiments::search
