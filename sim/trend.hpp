// Whether values grow along a row, such as times in system by order of arrival: the sign of a queue without an end.
//
// Values come in any order, each with its place in the row. At most kMost equal stretches of the row are kept; when the
// row gets longer, they are joined in pairs. A straight line through the means of the stretches (least squares) gives
// growth and its t. What is assumed: means of stretches are nearly independent, so a stretch is to be long against the
// time over which neighbours depend on each other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace orrery::sim {

/// Means of the stretches of a row, in constant memory.
class PlaceMeans {
 public:
  static constexpr std::size_t kMost = 64;

  /// `place` >= 0. Amortised constant time.
  void add(std::int64_t place, double value);
  /// Values of another row with the same places: a replication. Stretches take the longer of the two lengths.
  void add(const PlaceMeans& other);
  /// Mean of each stretch with any values, in order.
  std::vector<double> means() const;
  std::int64_t count() const;

 private:
  struct Stretch {
    double sum = 0;
    std::int64_t count = 0;
  };
  void join_pairs();

  std::vector<Stretch> stretches_;
  int shift_ = 0;  // 2^shift_ places in a stretch
};

/// A straight line through equally spaced values.
struct Trend {
  double mean = 0;
  double growth = 0;  ///< of the line from the first value to the last
  double t = 0;       ///< slope over its standard error; 0 with fewer than three values, infinite on an exact line
};
Trend trend_of(std::span<const double> values);

}  // namespace orrery::sim
