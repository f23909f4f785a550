#include "sim/relative_line.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::sim {

RelativeLine fit_relative_line(std::span<const LinePoint> points) {
  double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;
  for (const LinePoint& p : points) {
    const double weight = 1 / (p.y * p.y);
    w += weight;
    wx += weight * p.x;
    wxx += weight * p.x * p.x;
    wy += weight * p.y;
    wxy += weight * p.x * p.y;
  }
  RelativeLine line;
  // Rounding of sums that cancel is not a slope.
  const double spread = w * wxx - wx * wx;
  if (spread > 1e-12 * w * wxx) line.slope = std::max(0.0, (w * wxy - wx * wy) / spread);
  if (w > 0) line.start = (wy - line.slope * wx) / w;
  if (line.start < 0) line.start = 0, line.slope = wxy / wxx;
  for (const LinePoint& p : points)
    line.furthest = std::max(line.furthest, std::abs((line.start + line.slope * p.x) / p.y - 1));
  return line;
}

}  // namespace orrery::sim
