#include "hw/cost/profile_table.hpp"

#include "sim/base/math.hpp"

namespace orrery::hw {
namespace {

constexpr double kSame = 1e-9;  // logarithms closer than this are one coordinate

double between(double low, double low_value, double high, double high_value, double at) {
  if (high - low < kSame) return low_value;
  return low_value + (high_value - low_value) * (at - low) / (high - low);
}

double square(double v) {
  return v * v;
}

}  // namespace

void ProfileTable::add(const Point& point) {
  Slice& slice = groups_[point.group][sim::det_log(point.x)];
  if (slice.insert_or_assign(sim::det_log(point.y), sim::det_log(point.time_s)).second) ++points_;
}

std::optional<double> ProfileTable::along(const Slice& slice, double log_y) {
  const auto high = slice.lower_bound(log_y - kSame);
  if (high == slice.end()) return std::nullopt;
  if (high->first <= log_y + kSame) return high->second;
  if (high == slice.begin()) return std::nullopt;
  const auto low = std::prev(high);
  return between(low->first, low->second, high->first, high->second, log_y);
}

std::optional<double> ProfileTable::at(const Group& group, double x, double y) const {
  const auto found = groups_.find(group);
  if (found == groups_.end() || !(x > 0) || !(y > 0)) return std::nullopt;
  const double log_x = sim::det_log(x), log_y = sim::det_log(y);
  const auto& slices = found->second;
  const auto high = slices.lower_bound(log_x - kSame);
  if (high == slices.end()) return std::nullopt;
  const std::optional<double> above = along(high->second, log_y);
  if (!above) return std::nullopt;
  if (high->first <= log_x + kSame) return sim::det_exp(*above);
  if (high == slices.begin()) return std::nullopt;
  const auto low = std::prev(high);
  const std::optional<double> below = along(low->second, log_y);
  if (!below) return std::nullopt;
  return sim::det_exp(between(low->first, *below, high->first, *above, log_x));
}

std::optional<ProfileTable::Point> ProfileTable::nearest(const Group& group, double x, double y) const {
  if (!(x > 0) || !(y > 0)) return std::nullopt;
  const double log_x = sim::det_log(x), log_y = sim::det_log(y);
  std::optional<Point> best;
  double best_distance = 0;
  const auto offer = [&](const Group& of, const std::map<double, Slice>& slices, double apart) {
    for (const auto& [at_x, slice] : slices) {
      for (const auto& [at_y, log_time] : slice) {
        const double distance = apart + square(at_x - log_x) + square(at_y - log_y);
        if (best && distance >= best_distance) continue;
        best_distance = distance;
        best = Point{of, sim::det_exp(at_x), sim::det_exp(at_y), sim::det_exp(log_time)};
      }
    }
  };
  if (const auto own = groups_.find(group); own != groups_.end()) {
    offer(group, own->second, 0);
    return best;
  }
  for (const auto& [of, slices] : groups_) {
    double apart = 0;
    for (std::size_t i = 0; i < of.size(); ++i)
      if (of[i] > 0 && group[i] > 0)
        apart += square(sim::det_log(static_cast<double>(of[i])) - sim::det_log(static_cast<double>(group[i])));
    offer(of, slices, apart);
  }
  return best;
}

}  // namespace orrery::hw
