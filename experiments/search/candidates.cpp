#include "experiments/search/candidates.hpp"

namespace orrery::experiments::search {
namespace {

constexpr std::uint64_t kListed = 1 << 14;  ///< grids of at most so many points are walked for the allowed ones
constexpr int kDraws = 2000;                ///< draws for one point that is new
constexpr std::size_t kDrawsEach = 20;      ///< draws for each of many points that are new and allowed

}  // namespace

Candidates::Candidates(const Space& space) : space_(space) {
  const auto size = space.grid_size();
  if (!size || *size > kListed) return;
  std::set<std::string> keys;
  for (std::uint64_t i = 0; i < *size; ++i) {
    Point point = space.grid_point(i);
    if (space.allowed(point) && keys.insert(space.key(point)).second) all_.push_back(std::move(point));
  }
  listed_ = all_.size() <= kWhole;
  if (!listed_) all_.clear();
}

std::vector<Point> Candidates::draw(std::size_t most, const std::vector<Point>& around,
                                    sim::RandomStream& random) const {
  std::vector<Point> points;
  if (listed_) {
    for (const Point& point : all_)
      if (!seen(point)) points.push_back(point);
    return points;
  }
  const std::size_t local = around.empty() ? 0 : most / 2;
  std::set<std::string> keys;
  const auto take = [&](Point point) {
    if (!seen(point) && keys.insert(space_.key(point)).second) points.push_back(std::move(point));
  };
  for (std::size_t draws = 0; draws < kDrawsEach * (most - local) && points.size() < most - local; ++draws)
    if (auto point = space_.sample(random, 1)) take(*std::move(point));
  if (points.empty())
    if (auto point = any(random)) take(*std::move(point));
  static constexpr double kWidths[] = {0.2, 0.05, 0.0125};
  for (std::size_t i = 0; i < around.size(); ++i) {
    const std::size_t share = local * (i + 1) / around.size() - local * i / around.size();
    for (std::size_t w = 0; w < 3; ++w)
      for (Point& point : near(around[i], (share + w) / 3, kWidths[w], random)) take(std::move(point));
  }
  return points;
}

std::vector<Point> Candidates::near(const Point& centre, std::size_t most, double width,
                                    sim::RandomStream& random) const {
  std::vector<Point> points;
  std::set<std::string> keys;
  for (std::size_t i = 0; i < 3 * most && points.size() < most; ++i) {
    Point point = centre;
    const std::uint64_t moves = 1 + random.below(2);
    for (std::uint64_t m = 0; m < moves; ++m) {
      const std::size_t p = random.below(point.size());
      point[p] = space_.step(p, point[p], width, random);
    }
    point = space_.canonical(std::move(point));
    if (space_.allowed(point) && !seen(point) && keys.insert(space_.key(point)).second)
      points.push_back(std::move(point));
  }
  return points;
}

std::optional<Point> Candidates::any(sim::RandomStream& random) const {
  if (listed_) {
    const std::vector<Point> left = draw(0, {}, random);
    if (left.empty()) return std::nullopt;
    return left[random.below(left.size())];
  }
  for (int i = 0; i < kDraws; ++i) {
    auto point = space_.sample(random);
    if (!point) return std::nullopt;
    if (!seen(*point)) return point;
  }
  return std::nullopt;
}

}  // namespace orrery::experiments::search
