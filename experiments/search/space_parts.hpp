// Parts of a space that conditions make: points at which the same parameters count. Parts have nothing in common but
// what switches between them, so what is good in one says little of another; and one that is hard to tune looks worse
// than it is.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/search/space.hpp"

namespace orrery::experiments::search {

class SpaceParts {
 public:
  /// Those that some random points show; none for a space without conditions, or of more than 32 parts.
  SpaceParts(const Space& space, sim::RandomStream random);
  bool empty() const { return parts_.empty(); }
  /// Part of a point, whether listed or not.
  static std::string of(const Point& point);
  /// Parts in turn.
  const std::string& at(std::size_t turn) const { return parts_[turn % parts_.size()]; }
  /// Two more than parameters count, of each part.
  std::int64_t first_points() const;
  /// Notes a point that was looked at.
  void note(const Point& point) { ++points_[of(point)]; }
  /// Asked once a proposal: at every 1/share-th the part with fewest points, else nothing.
  std::optional<std::string> due(double share);

 private:
  std::int64_t points(const std::string& part) const;

  std::vector<std::string> parts_;
  std::map<std::string, std::int64_t> points_;
  double owed_ = 0;
};

}  // namespace orrery::experiments::search
