// Measured times on a grid: what the `profile` model reads.
//
// Points belong to a group (a kernel's fixed dimensions: n and k of a product, heads of an attention) and have two
// coordinates inside it (say sequences and tokens; a group of one coordinate leaves the first at 1). A time between
// points is interpolated linearly in the logarithms: first along the second coordinate within the two neighbouring
// slices, then between them. Beyond the measured points there is no answer; the nearest point is another question.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace orrery::hw {

class ProfileTable {
 public:
  using Group = std::array<std::int64_t, 3>;
  struct Point {
    Group group{};
    double x = 1, y = 1;  ///< > 0
    double time_s = 0;    ///< > 0
  };

  /// A point measured twice takes the later time.
  void add(const Point& point);
  std::size_t size() const { return points_; }
  bool empty() const { return points_ == 0; }

  /// Interpolated time in s; nothing outside the measured points of the group.
  std::optional<double> at(const Group& group, double x, double y) const;
  /// The nearest measured point by the sum of squared logarithms of ratios, the group's dimensions included: of the
  /// same group if that was measured at all. Nothing for an empty table. Linear in the points compared.
  std::optional<Point> nearest(const Group& group, double x, double y) const;

 private:
  /// Points of one x, by log y: log time.
  using Slice = std::map<double, double>;
  static std::optional<double> along(const Slice& slice, double log_y);

  std::map<Group, std::map<double, Slice>> groups_;
  std::size_t points_ = 0;
};

}  // namespace orrery::hw
