// NSGA-II (Deb, Pratap, Agarwal, Meyarivan 2002) with constraint domination: parents by rank and crowding, simulated
// binary crossing and polynomial mutation for reals and long ranges of integers (in the unit cube, so that logarithmic
// scales count), exchange and steps for choices. Points that are twice in a generation are kept once.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "experiments/search/moves.hpp"
#include "experiments/search/proposing.hpp"
#include "sim/base/math.hpp"

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
        sim::field("crossover", &P::crossover, Unit::ratio, sim::between(0, 1), "Share of pairs that are crossed."),
        sim::field(
            "crossover_index", &P::crossover_index, Unit::none, sim::between(0, 1000),
            "Distribution index of simulated binary crossing: larger keeps children closer to their parents; 0: 15, "
            "with a budget below 2,000 five."),
        sim::field("mutation", &P::mutation, Unit::ratio, sim::between(0, 1),
                   "Chance of each parameter to change; 0: one over their number."),
        sim::field("mutation_index", &P::mutation_index, Unit::none, sim::between(0, 1000),
                   "Distribution index of polynomial mutation; 0: 20, with a budget below 2,000 five.")};
  }
};

struct Member {
  Trial trial;
  std::size_t rank = 0;
  double crowding = 0;
};

/// Fronts of indices, the best first (fast non-dominated sorting).
std::vector<std::vector<std::size_t>> sorted_fronts(const std::vector<Member>& all) {
  std::vector<std::vector<std::size_t>> beats(all.size()), fronts(1);
  std::vector<std::size_t> beaten_by(all.size(), 0);
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const Evaluation &a = all[i].trial.result, &b = all[j].trial.result;
      const bool first = dominates(a, b);
      if (!first && !dominates(b, a)) continue;
      beats[first ? i : j].push_back(first ? j : i);
      ++beaten_by[first ? j : i];
    }
  for (std::size_t i = 0; i < all.size(); ++i)
    if (beaten_by[i] == 0) fronts[0].push_back(i);
  while (!fronts.back().empty()) {
    std::vector<std::size_t> next;
    for (const std::size_t i : fronts.back())
      for (const std::size_t j : beats[i])
        if (--beaten_by[j] == 0) next.push_back(j);
    fronts.push_back(std::move(next));
  }
  fronts.pop_back();
  return fronts;
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

class Nsga2Driver final : public Driver {
 public:
  Nsga2Driver(const Nsga2Params& params, const DriverSetup& setup)
      : params_(params), space_(*setup.space), random_(setup.random) {
    // Few evaluations want many small generations and large steps (zdt, dtlz: docs/explain/drivers.md).
    const bool few = setup.budget > 0 && setup.budget < 2000;
    if (params_.population == 0) params_.population = std::clamp<std::int64_t>(setup.budget / 25, few ? 12 : 100, 100);
    params_.population = std::max<std::int64_t>(4, params_.population);
    if (params_.crossover_index == 0) params_.crossover_index = few ? 5 : 15;
    if (params_.mutation_index == 0) params_.mutation_index = few ? 5 : 20;
    if (params_.mutation == 0) params_.mutation = 1 / static_cast<double>(std::max<std::size_t>(1, space_.size()));
  }

  std::vector<Proposal> ask(std::size_t most) override {
    return proposals(most, [&] { return parents_.empty() ? space_.sample(random_) : child(); });
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
  static constexpr int kTries = 50;  ///< children that are not allowed before a random point is taken

  const Point& parent() {
    const Member &a = parents_[random_.below(parents_.size())], &b = parents_[random_.below(parents_.size())];
    const bool first = a.rank != b.rank ? a.rank < b.rank : a.crowding >= b.crowding;
    return (first ? a : b).trial.proposal.point;
  }
  std::optional<Point> child() {
    for (int i = 0; i < kTries; ++i) {
      if (spare_) {
        Point point = *std::move(spare_);
        spare_.reset();
        if (space_.allowed(point)) return point;
        continue;
      }
      Point a = parent(), b = parent();
      if (random_.bernoulli(params_.crossover)) cross(a, b);
      a = completed(space_, mutate(std::move(a)), random_);
      spare_ = completed(space_, mutate(std::move(b)), random_);
      if (space_.allowed(a)) return a;
    }
    return space_.sample(random_);
  }

  /// Exchange of choices; simulated binary crossing within the bounds of what is fine.
  void cross(Point& a, Point& b) {
    for (std::size_t p = 0; p < a.size(); ++p) {
      if (a[p] == b[p] || random_.bernoulli(0.5)) continue;
      if (!is_fine(space_.parameters()[p]) || std::isnan(a[p]) || std::isnan(b[p])) {
        std::swap(a[p], b[p]);
        continue;
      }
      const double u = space_.to_unit(p, a[p]), v = space_.to_unit(p, b[p]);
      const double low = std::min(u, v), high = std::max(u, v), gap = high - low;
      if (gap < 1e-14) continue;
      const double draw = random_.uniform();
      const double down = (low + high - spread(draw, low / gap) * gap) / 2;
      const double up = (low + high + spread(draw, (1 - high) / gap) * gap) / 2;
      const bool swapped = random_.bernoulli(0.5);
      a[p] = space_.from_unit(p, swapped ? up : down);
      b[p] = space_.from_unit(p, swapped ? down : up);
    }
  }
  /// How far children lie apart, in gaps of their parents, where `room` gaps are left to the bound.
  double spread(double draw, double room) const {
    const double power = params_.crossover_index + 1, alpha = 2 - sim::det_pow(1 + 2 * room, -power);
    return draw <= 1 / alpha ? sim::det_pow(draw * alpha, 1 / power) : sim::det_pow(1 / (2 - draw * alpha), 1 / power);
  }

  Point mutate(Point point) {
    for (std::size_t p = 0; p < point.size(); ++p) {
      if (std::isnan(point[p]) || !random_.bernoulli(params_.mutation)) continue;
      if (!is_fine(space_.parameters()[p])) {
        point[p] = space_.step(p, point[p], 0.1, random_);
        continue;
      }
      const double u = space_.to_unit(p, point[p]), draw = random_.uniform(), power = params_.mutation_index + 1;
      const double room = draw < 0.5 ? u : 1 - u, share = draw < 0.5 ? 2 * draw : 2 * (1 - draw);
      const double move = 1 - sim::det_pow(share + (1 - share) * sim::det_pow(1 - room, power), 1 / power);
      point[p] = space_.from_unit(p, draw < 0.5 ? u - move : u + move);
    }
    return point;
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
  std::optional<Point> spare_;  ///< the second child of the last pair
  std::int64_t generations_ = 0;
};

}  // namespace

void add_nsga2_driver(DriverRegistry& registry) {
  registry.add<Nsga2Params>(
      "nsga2", "NSGA-II with constraint domination, for several objectives.",
      [](const Nsga2Params& params, const DriverSetup& setup) { return std::make_unique<Nsga2Driver>(params, setup); });
}

}  // namespace orrery::experiments::search
