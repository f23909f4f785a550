#include "experiments/search/offspring.hpp"

#include <algorithm>
#include <cmath>

#include "experiments/search/moves.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::search {
namespace {

constexpr int kTries = 50;  ///< children that are not allowed before a random point is taken

bool few(std::int64_t budget) {
  return budget > 0 && budget < 2000;
}

}  // namespace

// Few evaluations want many small generations and large steps (zdt, dtlz: docs/explain/drivers.md).
std::int64_t generation_size(std::int64_t budget) {
  return std::clamp<std::int64_t>(budget / 25, few(budget) ? 12 : 100, 100);
}

Offspring::Offspring(const OffspringParams& params, const Space& space, std::int64_t budget)
    : params_(params), space_(space) {
  if (params_.crossover_index == 0) params_.crossover_index = few(budget) ? 5 : 15;
  if (params_.mutation_index == 0) params_.mutation_index = few(budget) ? 5 : 20;
  if (params_.mutation == 0) params_.mutation = 1 / static_cast<double>(std::max<std::size_t>(1, space_.size()));
}

std::optional<Point> Offspring::next(const std::function<const Point&()>& parent, sim::RandomStream& random) {
  for (int i = 0; i < kTries; ++i) {
    if (spare_) {
      Point point = *std::move(spare_);
      spare_.reset();
      if (space_.allowed(point)) return point;
      continue;
    }
    Point a = parent(), b = parent();
    if (random.bernoulli(params_.crossover)) cross(a, b, random);
    a = completed(space_, mutate(std::move(a), random), random);
    spare_ = completed(space_, mutate(std::move(b), random), random);
    if (space_.allowed(a)) return a;
  }
  return space_.sample(random);
}

/// Exchange of choices; simulated binary crossing within the bounds of what is fine.
void Offspring::cross(Point& a, Point& b, sim::RandomStream& random) const {
  for (std::size_t p = 0; p < a.size(); ++p) {
    if (a[p] == b[p] || random.bernoulli(0.5)) continue;
    if (!is_fine(space_.parameters()[p]) || std::isnan(a[p]) || std::isnan(b[p])) {
      std::swap(a[p], b[p]);
      continue;
    }
    const double u = space_.to_unit(p, a[p]), v = space_.to_unit(p, b[p]);
    const double low = std::min(u, v), high = std::max(u, v), gap = high - low;
    if (gap < 1e-14) continue;
    const double draw = random.uniform();
    const double down = (low + high - spread(draw, low / gap) * gap) / 2;
    const double up = (low + high + spread(draw, (1 - high) / gap) * gap) / 2;
    const bool swapped = random.bernoulli(0.5);
    a[p] = space_.from_unit(p, swapped ? up : down);
    b[p] = space_.from_unit(p, swapped ? down : up);
  }
}
/// How far children lie apart, in gaps of their parents, where `room` gaps are left to the bound.
double Offspring::spread(double draw, double room) const {
  const double power = params_.crossover_index + 1, alpha = 2 - sim::det_pow(1 + 2 * room, -power);
  return draw <= 1 / alpha ? sim::det_pow(draw * alpha, 1 / power) : sim::det_pow(1 / (2 - draw * alpha), 1 / power);
}

Point Offspring::mutate(Point point, sim::RandomStream& random) const {
  for (std::size_t p = 0; p < point.size(); ++p) {
    if (std::isnan(point[p]) || !random.bernoulli(params_.mutation)) continue;
    if (!is_fine(space_.parameters()[p])) {
      point[p] = space_.step(p, point[p], 0.1, random);
      continue;
    }
    const double u = space_.to_unit(p, point[p]), draw = random.uniform(), power = params_.mutation_index + 1;
    const double room = draw < 0.5 ? u : 1 - u, share = draw < 0.5 ? 2 * draw : 2 * (1 - draw);
    const double move = 1 - sim::det_pow(share + (1 - share) * sim::det_pow(1 - room, power), 1 / power);
    point[p] = space_.from_unit(p, draw < 0.5 ? u - move : u + move);
  }
  return point;
}

}  // namespace orrery::experiments::search
