// NSGA-II (Deb, Pratap, Agarwal, Meyarivan 2002) with constraint domination: parents by rank and crowding, children as
// of offspring.hpp. Points that are twice in a generation are kept once.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "experiments/search/offspring.hpp"
#include "experiments/search/proposing.hpp"
#include "experiments/search/ranking.hpp"

namespace orrery::experiments::search {
namespace {

struct Nsga2Params {
  std::int64_t population = 0;
  double crossover = 0.9;
  double crossover_index = 0;
  double mutation = 0;
  double mutation_index = 0;

  static constexpr auto fields() {
    using P = Nsga2Params;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("population", &P::population, Unit::count, sim::between(0, 100'000),
                   "Points of a generation; 0: a 25th of the budget, between 12 and 100."),
        sim::field("crossover", &P::crossover, Unit::ratio, sim::between(0, 1),
                   "Share of pairs of parents that are crossed."),
        sim::field("crossover_index", &P::crossover_index, Unit::none, sim::between(0, 1000),
                   "Distribution index of simulated binary crossover; larger values keep children closer to their "
                   "parents. 0: 15, or 5 with a budget below 2,000."),
        sim::field("mutation", &P::mutation, Unit::ratio, sim::between(0, 1),
                   "Probability of each parameter to change; 0: one over the number of parameters."),
        sim::field("mutation_index", &P::mutation_index, Unit::none, sim::between(0, 1000),
                   "Distribution index of polynomial mutation; 0: 20, or 5 with a budget below 2,000.")};
  }
};

struct Member {
  Trial trial;
  std::size_t rank = 0;
  double crowding = 0;
};

std::vector<std::vector<std::size_t>> sorted_fronts(const std::vector<Member>& all) {
  std::vector<const Evaluation*> results;
  for (const Member& member : all) results.push_back(&member.trial.result);
  return domination_fronts(results);
}

/// Crowding distances of the members of a front.
void set_crowding(std::vector<Member>& all, std::vector<std::size_t> front) {
  for (const std::size_t i : front) all[i].crowding = 0;
  const std::size_t objectives = all[front[0]].trial.result.objectives.size();
  for (std::size_t m = 0; m < objectives; ++m) {
    const auto value = [&](std::size_t i) {
      const auto& objective = all[i].trial.result.objectives;
      return m < objective.size() ? objective[m] : std::numeric_limits<double>::max();
    };
    std::stable_sort(front.begin(), front.end(), [&](std::size_t a, std::size_t b) { return value(a) < value(b); });
    const double range = value(front.back()) - value(front.front());
    all[front.front()].crowding = all[front.back()].crowding = std::numeric_limits<double>::infinity();
    if (range <= 0) continue;
    for (std::size_t k = 1; k + 1 < front.size(); ++k)
      all[front[k]].crowding += (value(front[k + 1]) - value(front[k - 1])) / range;
  }
}

class Nsga2Driver final : public StreamDriver {
 public:
  Nsga2Driver(const Nsga2Params& params, const DriverSetup& setup)
      : params_(params),
        space_(*setup.space),
        random_(setup.random),
        offspring_({params.crossover, params.crossover_index, params.mutation, params.mutation_index}, space_,
                   setup.budget) {
    if (params_.population == 0) params_.population = generation_size(setup.budget);
    params_.population = std::max<std::int64_t>(4, params_.population);
  }

  std::vector<Proposal> ask(std::size_t most) override {
    return proposals(most, [&] {
      return parents_.empty() ? space_.sample(random_)
                              : offspring_.next([&]() -> const Point& { return parent(); }, random_);
    });
  }

  void tell(std::span<const Trial> trials) override {
    for (const Trial& trial : trials) {
      children_.push_back({trial});
      if (std::ssize(children_) >= params_.population) next_generation();
    }
  }

  std::vector<std::pair<std::string, double>> statistics() const override {
    return {{"generations", static_cast<double>(generations_)}};
  }

 private:
  const Point& parent() {
    const Member &a = parents_[random_.below(parents_.size())], &b = parents_[random_.below(parents_.size())];
    const bool first = a.rank != b.rank ? a.rank < b.rank : a.crowding >= b.crowding;
    return (first ? a : b).trial.proposal.point;
  }
  void next_generation() {
    std::set<std::string> seen;
    std::vector<Member> all;
    for (std::vector<Member>* from : {&parents_, &children_})
      for (Member& member : *from)
        if (seen.insert(space_.key(member.trial.proposal.point)).second) all.push_back(std::move(member));
    parents_.clear();
    children_.clear();
    const auto size = static_cast<std::size_t>(params_.population);
    std::size_t rank = 0;
    for (std::vector<std::size_t>& front : sorted_fronts(all)) {
      if (parents_.size() == size) break;
      set_crowding(all, front);
      std::stable_sort(front.begin(), front.end(),
                       [&](std::size_t a, std::size_t b) { return all[a].crowding > all[b].crowding; });
      for (const std::size_t i : front) {
        if (parents_.size() == size) break;
        all[i].rank = rank;
        parents_.push_back(std::move(all[i]));
      }
      ++rank;
    }
    ++generations_;
  }

  Nsga2Params params_;
  const Space& space_;
  sim::RandomStream random_;
  std::vector<Member> parents_, children_;
  Offspring offspring_;
  std::int64_t generations_ = 0;
};

}  // namespace

void add_nsga2_driver(DriverRegistry& registry) {
  registry.add<Nsga2Params>(
      "nsga2", "NSGA-II with constraint domination, for several objectives.",
      [](const Nsga2Params& params, const DriverSetup& setup) { return std::make_unique<Nsga2Driver>(params, setup); });
}

}  // namespace orrery::experiments::search
