// NSGA-III (Deb and Jain 2014; with limits Jain and Deb 2014): like NSGA-II, but of the front that does not fit whole
// those stay that are nearest to directions with few points, so that three objectives and more are covered evenly where
// crowding distances say little. Directions are even on the simplex (Das and Dennis 1998), beyond five objectives in
// two layers; objectives are measured between the best so far and the intercepts of the plane through the extremes.
#include <Eigen/LU>
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "experiments/search/offspring.hpp"
#include "experiments/search/proposing.hpp"
#include "experiments/search/ranking.hpp"

namespace orrery::experiments::search {
namespace {

constexpr std::size_t kOneLayer = 5;  ///< objectives beyond which inner directions stand in a layer of their own

struct Nsga3Params {
  std::int64_t directions = 0;

  static constexpr auto fields() {
    using P = Nsga3Params;
    return sim::FieldTable{sim::field(
        "directions", &P::directions, sim::Unit::count, sim::between(0, 10'000),
        "Most reference directions, and so points of a generation; 0: a 25th of the budget, between 12 and 100.")};
  }
};

using Vector = std::vector<double>;

/// Adds all vectors of `parts` whole numbers that sum to `left`, as shares of `divisions`.
void add_simplex(std::size_t parts, std::int64_t left, std::int64_t divisions, Vector& begun,
                 std::vector<Vector>& all) {
  if (parts == 1) {
    begun.push_back(static_cast<double>(left) / static_cast<double>(divisions));
    all.push_back(begun);
    begun.pop_back();
    return;
  }
  for (std::int64_t own = 0; own <= left; ++own) {
    begun.push_back(static_cast<double>(own) / static_cast<double>(divisions));
    add_simplex(parts - 1, left - own, divisions, begun, all);
    begun.pop_back();
  }
}

/// C(parts + divisions - 1, divisions), or a large number beyond `most`.
double simplex_size(std::size_t parts, std::int64_t divisions, double most) {
  double size = 1;
  for (std::int64_t i = 1; i <= divisions && size <= most; ++i)
    size = size * static_cast<double>(static_cast<std::int64_t>(parts) + i - 1) / static_cast<double>(i);
  return size;
}

std::vector<Vector> simplex(std::size_t parts, std::size_t most) {
  if (parts == 1) return {{1.0}};
  std::int64_t divisions = 1;
  while (simplex_size(parts, divisions + 1, static_cast<double>(most)) <= static_cast<double>(most)) ++divisions;
  std::vector<Vector> all;
  Vector begun;
  add_simplex(parts, divisions, divisions, begun, all);
  return all;
}

/// At most `most` directions, the axes always among them.
std::vector<Vector> directions_of(std::size_t objectives, std::size_t most) {
  if (objectives <= kOneLayer) return simplex(objectives, most);
  std::vector<Vector> all = simplex(objectives, std::max(objectives, most / 2));
  for (Vector inner : simplex(objectives, std::max(objectives, most - std::min(most, all.size())))) {
    for (double& share : inner) share = (share + 1 / static_cast<double>(objectives)) / 2;
    all.push_back(std::move(inner));
  }
  return all;
}

class Nsga3Driver final : public StreamDriver {
 public:
  Nsga3Driver(const Nsga3Params& params, const DriverSetup& setup)
      : space_(*setup.space), random_(setup.random), offspring_({}, space_, setup.budget) {
    const std::int64_t most = params.directions > 0 ? params.directions : generation_size(setup.budget);
    directions_ = directions_of(setup.objectives, static_cast<std::size_t>(most));
    size_ = std::max<std::size_t>(4, setup.objectives == 1 ? static_cast<std::size_t>(most) : directions_.size());
    best_.assign(setup.objectives, std::numeric_limits<double>::infinity());
  }

  std::vector<Proposal> ask(std::size_t most) override {
    return proposals(most, [&] {
      return parents_.empty() ? space_.sample(random_)
                              : offspring_.next([&]() -> const Point& { return parent(); }, random_);
    });
  }

  void tell(std::span<const Trial> trials) override {
    for (const Trial& trial : trials) {
      children_.push_back(trial);
      if (children_.size() >= size_) next_generation();
    }
  }

  std::vector<std::pair<std::string, double>> statistics() const override {
    return {{"directions", static_cast<double>(directions_.size())},
            {"generations", static_cast<double>(generations_)}};
  }

 private:
  /// Among points that meet the limits by chance, else the better of two.
  const Point& parent() {
    const Trial &a = parents_[random_.below(parents_.size())], &b = parents_[random_.below(parents_.size())];
    return (b.result.violation() < a.result.violation() ? b : a).proposal.point;
  }

  void next_generation() {
    std::set<std::string> seen;
    std::vector<Trial> all;
    for (std::vector<Trial>* from : {&parents_, &children_})
      for (Trial& trial : *from)
        if (seen.insert(space_.key(trial.proposal.point)).second) all.push_back(std::move(trial));
    children_.clear();
    std::vector<const Evaluation*> results;
    for (const Trial& trial : all) {
      results.push_back(&trial.result);
      if (!trial.result.feasible()) continue;
      for (std::size_t m = 0; m < best_.size(); ++m) best_[m] = std::min(best_[m], trial.result.objectives[m]);
    }
    std::vector<std::size_t> kept;
    for (const std::vector<std::size_t>& front : domination_fronts(results)) {
      const std::size_t room = size_ - kept.size();
      if (front.size() <= room)
        kept.insert(kept.end(), front.begin(), front.end());
      else if (all[front[0]].result.feasible())
        fill(all, front, room, kept);
      else
        kept.insert(kept.end(), front.begin(), front.begin() + static_cast<std::ptrdiff_t>(room));
      if (kept.size() == size_) break;
    }
    parents_.clear();
    for (const std::size_t i : kept) parents_.push_back(std::move(all[i]));
    ++generations_;
  }

  /// What objectives are divided by: the intercepts of the plane through the points that are most extreme along each
  /// axis, or where there is none, the worst of the points.
  Vector ranges(const std::vector<Vector>& points) const {
    const std::size_t n = best_.size();
    const auto size = static_cast<Eigen::Index>(n);
    Eigen::MatrixXd extremes(size, size);
    for (std::size_t axis = 0; axis < n; ++axis) {
      const auto most_off = [&](const Vector& point) {
        double worst = 0;
        for (std::size_t m = 0; m < n; ++m) worst = std::max(worst, m == axis ? point[m] : 1e6 * point[m]);
        return worst;
      };
      const auto extreme = std::min_element(
          points.begin(), points.end(), [&](const Vector& a, const Vector& b) { return most_off(a) < most_off(b); });
      for (std::size_t m = 0; m < n; ++m) extremes(Eigen::Index(axis), Eigen::Index(m)) = (*extreme)[m];
    }
    Vector worst(n, 0), found(n);
    for (const Vector& point : points)
      for (std::size_t m = 0; m < n; ++m) worst[m] = std::max(worst[m], point[m]);
    const Eigen::FullPivLU<Eigen::MatrixXd> solver(extremes);
    const Eigen::VectorXd plane = solver.solve(Eigen::VectorXd::Ones(size));
    bool usable = solver.isInvertible();
    for (std::size_t m = 0; m < n; ++m) {
      const double share = plane[Eigen::Index(m)];
      found[m] = share > 0 ? 1 / share : 0;
      usable = usable && found[m] > 1e-10 && found[m] <= 10 * worst[m];
    }
    if (!usable) found = worst;
    for (double& range : found) range = range > 1e-300 ? range : 1;
    return found;
  }

  /// The nearest direction, and how far off it the point lies.
  std::pair<std::size_t, double> nearest(const Vector& point) const {
    std::pair<std::size_t, double> best{0, std::numeric_limits<double>::infinity()};
    double length = 0;
    for (const double value : point) length += value * value;
    for (std::size_t d = 0; d < directions_.size(); ++d) {
      double along = 0, norm = 0;
      for (std::size_t m = 0; m < point.size(); ++m) {
        along += point[m] * directions_[d][m];
        norm += directions_[d][m] * directions_[d][m];
      }
      const double off = std::max(0.0, length - along * along / norm);
      if (off < best.second) best = {d, off};
    }
    return best;
  }

  /// Takes `room` of a front to those that are kept: always for a direction with the fewest, the nearest where it has
  /// none yet, else any.
  void fill(const std::vector<Trial>& all, const std::vector<std::size_t>& front, std::size_t room,
            std::vector<std::size_t>& kept) {
    std::vector<std::size_t> both = kept;
    both.insert(both.end(), front.begin(), front.end());
    std::vector<Vector> points;
    for (const std::size_t i : both) {
      points.push_back(all[i].result.objectives);
      for (std::size_t m = 0; m < best_.size(); ++m) points.back()[m] -= best_[m];
    }
    const Vector divisors = ranges(points);
    std::vector<std::size_t> counts(directions_.size(), 0);
    std::vector<std::vector<std::pair<double, std::size_t>>> waiting(directions_.size());  ///< by how far off
    for (std::size_t k = 0; k < both.size(); ++k) {
      for (std::size_t m = 0; m < best_.size(); ++m) points[k][m] /= divisors[m];
      const auto [direction, off] = nearest(points[k]);
      if (k < kept.size())
        ++counts[direction];
      else
        waiting[direction].emplace_back(off, both[k]);
    }
    for (auto& some : waiting) std::stable_sort(some.begin(), some.end());
    for (; room > 0; --room) {
      std::vector<std::size_t> fewest;
      for (std::size_t d = 0; d < directions_.size(); ++d) {
        if (waiting[d].empty()) continue;
        if (!fewest.empty() && counts[d] < counts[fewest[0]]) fewest.clear();
        if (fewest.empty() || counts[d] == counts[fewest[0]]) fewest.push_back(d);
      }
      const std::size_t d = fewest[random_.below(fewest.size())];
      const auto taken = static_cast<std::ptrdiff_t>(counts[d] == 0 ? 0 : random_.below(waiting[d].size()));
      kept.push_back(waiting[d][static_cast<std::size_t>(taken)].second);
      waiting[d].erase(waiting[d].begin() + taken);
      ++counts[d];
    }
  }

  const Space& space_;
  sim::RandomStream random_;
  Offspring offspring_;
  std::vector<Vector> directions_;
  std::size_t size_ = 0;  ///< of a generation
  Vector best_;           ///< of each objective so far
  std::vector<Trial> parents_, children_;
  std::int64_t generations_ = 0;
};

}  // namespace

void add_nsga3_driver(DriverRegistry& registry) {
  registry.add<Nsga3Params>(
      "nsga3", "NSGA-III: reference directions, for three objectives and more.",
      [](const Nsga3Params& params, const DriverSetup& setup) { return std::make_unique<Nsga3Driver>(params, setup); });
}

}  // namespace orrery::experiments::search
