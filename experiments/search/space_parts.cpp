#include "experiments/search/space_parts.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::experiments::search {
namespace {

constexpr std::size_t kMostParts = 32;
constexpr int kLooks = 256;

}  // namespace

SpaceParts::SpaceParts(const Space& space, sim::RandomStream random) {
  if (std::none_of(space.parameters().begin(), space.parameters().end(),
                   [](const Parameter& p) { return p.counts.has_value(); }))
    return;
  for (int i = 0; i < kLooks; ++i) {
    const auto point = space.sample(random, 100);
    if (!point) continue;
    const std::string part = of(*point);
    if (std::find(parts_.begin(), parts_.end(), part) == parts_.end()) parts_.push_back(part);
  }
  if (parts_.size() < 2 || parts_.size() > kMostParts) parts_.clear();
}

std::string SpaceParts::of(const Point& point) {
  std::string part;
  for (const double value : point) part += std::isnan(value) ? '-' : '+';
  return part;
}

std::int64_t SpaceParts::first_points() const {
  std::int64_t sum = 0;
  for (const std::string& part : parts_) sum += 2 + std::count(part.begin(), part.end(), '+');
  return sum;
}

std::int64_t SpaceParts::points(const std::string& part) const {
  const auto found = points_.find(part);
  return found == points_.end() ? 0 : found->second;
}

std::optional<std::string> SpaceParts::due(double share) {
  owed_ += share;
  if (parts_.empty() || owed_ < 1) return std::nullopt;
  owed_ -= 1;
  return *std::min_element(parts_.begin(), parts_.end(),
                           [&](const std::string& a, const std::string& b) { return points(a) < points(b); });
}

}  // namespace orrery::experiments::search
