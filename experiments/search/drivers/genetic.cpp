// A genetic algorithm: parents by tournament, uniform crossing, mutation by steps of the space, the best carried over
// (Goldberg 1989; mutation of several sizes from Mühlenbein and Schlierkamp-Voosen 1993). A child takes a parameter
// that counts only for it from the parent where it counts. Population by population: the next one is the elite of the
// last and the best of its children.
#include <algorithm>

#include "experiments/search/moves.hpp"
#include "experiments/search/proposing.hpp"

namespace orrery::experiments::search {
namespace {

struct GeneticParams {
  std::int64_t population = 24;
  std::int64_t elite = 2;
  std::int64_t tournament = 3;
  double crossover = 0.8;
  double mutation = 0;
  double width = 0.3;

  static constexpr auto fields() {
    using P = GeneticParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("population", &P::population, Unit::count, sim::between(2, 100'000), "Points of a generation."),
        sim::field("elite", &P::elite, Unit::count, sim::at_least(0),
                   "Best points that are kept from one generation to the next."),
        sim::field("tournament", &P::tournament, Unit::count, sim::between(1, 1000),
                   "Points drawn, the best of which becomes a parent."),
        sim::field("crossover", &P::crossover, Unit::ratio, sim::between(0, 1),
                   "Share of children that have two parents."),
        sim::field("mutation", &P::mutation, Unit::ratio, sim::between(0, 1),
                   "Probability of each parameter to change; 0: one over the number of parameters. At least one always "
                   "changes."),
        sim::field("width", &P::width, Unit::ratio, sim::between(1e-9, 1),
                   "Largest step of a mutation, as a share of a parameter's range.")};
  }
};

class GeneticDriver final : public StreamDriver {
 public:
  GeneticDriver(const GeneticParams& params, const DriverSetup& setup)
      : params_(params), space_(*setup.space), random_(setup.random) {
    if (params_.mutation == 0) params_.mutation = 1 / static_cast<double>(std::max<std::size_t>(1, space_.size()));
    params_.elite = std::min(params_.elite, params_.population - 1);
  }

  std::vector<Proposal> ask(std::size_t most) override {
    return proposals(most, [&] { return parents_.empty() ? space_.sample(random_) : child(); });
  }

  void tell(std::span<const Trial> trials) override {
    for (const Trial& trial : trials) {
      children_.push_back(trial);
      if (std::ssize(children_) >= params_.population) next_generation();
    }
  }

  std::vector<std::pair<std::string, double>> statistics() const override {
    return {{"generations", static_cast<double>(generations_)}};
  }

 private:
  static constexpr int kTries = 50;  ///< children that are not allowed before a random point is taken

  const Point& parent() {
    std::size_t best = random_.below(parents_.size());
    for (std::int64_t i = 1; i < params_.tournament; ++i) {
      const std::size_t other = random_.below(parents_.size());
      if (better(parents_[other].result, parents_[best].result)) best = other;
    }
    return parents_[best].proposal.point;
  }
  std::optional<Point> child() {
    for (int i = 0; i < kTries; ++i) {
      Point point = parent();
      if (random_.bernoulli(params_.crossover)) point = crossed(space_, point, parent(), random_);
      point = mutated(space_, point, params_.mutation, params_.width, random_);
      if (space_.allowed(point)) return point;
    }
    return space_.sample(random_);
  }
  void next_generation() {
    const auto by_quality = [](const Trial& a, const Trial& b) { return better(a.result, b.result); };
    std::stable_sort(children_.begin(), children_.end(), by_quality);
    const auto stay = std::min(static_cast<std::size_t>(params_.elite), parents_.size());
    parents_.resize(stay);
    parents_.insert(parents_.end(), children_.begin(), children_.end());
    std::stable_sort(parents_.begin(), parents_.end(), by_quality);
    parents_.resize(std::min(parents_.size(), static_cast<std::size_t>(params_.population)));
    children_.clear();
    ++generations_;
  }

  GeneticParams params_;
  const Space& space_;
  sim::RandomStream random_;
  std::vector<Trial> parents_, children_;  ///< parents best first
  std::int64_t generations_ = 0;
};

}  // namespace

void add_genetic_driver(DriverRegistry& registry) {
  registry.add<GeneticParams>("genetic", "Genetic algorithm: tournaments, uniform crossover, steps as mutation.",
                              [](const GeneticParams& params, const DriverSetup& setup) {
                                return std::make_unique<GeneticDriver>(params, setup);
                              });
}

}  // namespace orrery::experiments::search
