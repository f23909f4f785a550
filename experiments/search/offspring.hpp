// Children of two points as genetic drivers for several objectives make them: simulated binary crossing and polynomial
// mutation (Deb and Agrawal 1995; Deb and Goyal 1996) for reals and long ranges of integers, in the unit cube, so that
// logarithmic scales count; exchange and steps for choices.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "experiments/search/space.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments::search {

struct OffspringParams {
  double crossover = 0.9;
  double crossover_index = 0;
  double mutation = 0;
  double mutation_index = 0;
};

/// Points of a generation: a 25th of the budget, at most 100 and, while evaluations are few, at least 12.
std::int64_t generation_size(std::int64_t budget);

class Offspring {
 public:
  /// What is 0 in the parameters is chosen by the space and by the budget of evaluations. The space outlives it.
  Offspring(const OffspringParams& params, const Space& space, std::int64_t budget);

  /// An allowed child of two parents, each the next that `parent` gives; a random point after many that are not
  /// allowed; nothing if none is found.
  std::optional<Point> next(const std::function<const Point&()>& parent, sim::RandomStream& random);

 private:
  void cross(Point& a, Point& b, sim::RandomStream& random) const;
  double spread(double draw, double room) const;
  Point mutate(Point point, sim::RandomStream& random) const;

  OffspringParams params_;
  const Space& space_;
  std::optional<Point> spare_;  ///< the second child of the last pair
};

}  // namespace orrery::experiments::search
