#include "sim/trend.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace orrery::sim {

void PlaceMeans::add(std::int64_t place, double value) {
  if (place < 0) throw std::invalid_argument("a place in a row is not negative");
  while (place >> shift_ >= static_cast<std::int64_t>(kMost)) join_pairs();
  const auto at = static_cast<std::size_t>(place >> shift_);
  if (at >= stretches_.size()) stretches_.resize(at + 1);
  stretches_[at].sum += value;
  ++stretches_[at].count;
}

void PlaceMeans::add(const PlaceMeans& other) {
  PlaceMeans theirs = other;
  while (theirs.shift_ < shift_) theirs.join_pairs();
  while (shift_ < theirs.shift_) join_pairs();
  if (stretches_.size() < theirs.stretches_.size()) stretches_.resize(theirs.stretches_.size());
  for (std::size_t i = 0; i < theirs.stretches_.size(); ++i) {
    stretches_[i].sum += theirs.stretches_[i].sum;
    stretches_[i].count += theirs.stretches_[i].count;
  }
}

void PlaceMeans::join_pairs() {
  ++shift_;
  for (std::size_t i = 0; i < stretches_.size(); ++i) {
    if (i % 2 == 0) {
      stretches_[i / 2] = stretches_[i];
    } else {
      stretches_[i / 2].sum += stretches_[i].sum;
      stretches_[i / 2].count += stretches_[i].count;
    }
  }
  stretches_.resize((stretches_.size() + 1) / 2);
}

std::vector<double> PlaceMeans::means() const {
  std::vector<double> means;
  for (const Stretch& stretch : stretches_)
    if (stretch.count > 0) means.push_back(stretch.sum / static_cast<double>(stretch.count));
  return means;
}

std::int64_t PlaceMeans::count() const {
  std::int64_t count = 0;
  for (const Stretch& stretch : stretches_) count += stretch.count;
  return count;
}

Trend trend_of(std::span<const double> values) {
  Trend trend;
  const auto n = static_cast<double>(values.size());
  if (values.empty()) return trend;
  for (const double value : values) trend.mean += value / n;
  if (values.size() < 3) return trend;
  const double middle = (n - 1) / 2;
  double across = 0;  // sums of squares and products about the means
  double both = 0;
  double along = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(i) - middle;
    const double y = values[i] - trend.mean;
    across += x * x;
    both += x * y;
    along += y * y;
  }
  const double slope = both / across;
  const double rest = along - slope * both;  // squares that the line leaves
  trend.growth = slope * (n - 1);
  if (slope == 0) return trend;
  trend.t = rest > 0 ? slope / std::sqrt(rest / (n - 2) / across)
                     : std::copysign(std::numeric_limits<double>::infinity(), slope);
  return trend;
}

}  // namespace orrery::sim
