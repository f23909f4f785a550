// Points that a model-based driver weighs up: a small space whole, of a larger one random points and steps around good
// ones.
#pragma once

#include <set>
#include <vector>

#include "experiments/search/space.hpp"

namespace orrery::experiments::search {

class Candidates {
 public:
  static constexpr std::uint64_t kWhole = 1024;  ///< spaces of at most so many points are listed

  explicit Candidates(const Space& space);
  /// Notes a point that is not to come again.
  void mark(const Point& point) { seen_.insert(space_.key(point)); }
  bool seen(const Point& point) const { return seen_.contains(space_.key(point)); }
  /// Whether all() is the whole space.
  bool whole() const { return listed_; }
  /// Allowed points not seen before: of a small space all of them, else at most `most`: a half at random, a half steps
  /// from `around`. Empty if none was found.
  std::vector<Point> draw(std::size_t most, const std::vector<Point>& around, sim::RandomStream& random) const;
  /// At most `most` allowed points not seen before that are a step of `width` from `centre`, in one or two parameters.
  std::vector<Point> near(const Point& centre, std::size_t most, double width, sim::RandomStream& random) const;
  /// An allowed point not seen before, uniform; nothing if none was found.
  std::optional<Point> any(sim::RandomStream& random) const;

 private:
  const Space& space_;
  bool listed_ = false;
  std::vector<Point> all_;
  std::set<std::string> seen_;
};

}  // namespace orrery::experiments::search
