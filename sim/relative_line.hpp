// A line through points by least squares of relative errors.
#pragma once

#include <span>

namespace orrery::sim {

struct LinePoint {
  double x = 0, y = 0;  ///< y above 0
};

/// y = start + slope x, neither below 0; `furthest`: the largest |line / y - 1| of the points.
struct RelativeLine {
  double start = 0, slope = 0, furthest = 0;
};

/// Of points that share one x the line is flat.
RelativeLine fit_relative_line(std::span<const LinePoint> points);

}  // namespace orrery::sim
