#include <algorithm>
#include <catch2/catch.hpp>

#include "policies/placement/slapo_tune.hpp"

namespace test_slapo_tune {

using namespace orrery;
namespace slapo = policies::slapo;
using slapo::GridPoint;

namespace {

/// A hill of one peak over axes that both demand more with larger indices; points past `limit` have no memory.
slapo::Evaluate hill(std::int64_t x, std::int64_t y, std::int64_t limit, int* calls = nullptr) {
  return [=](const GridPoint& p) -> std::optional<double> {
    if (calls != nullptr) ++*calls;
    if (p[0] + p[1] > limit) return std::nullopt;
    return 100.0 - static_cast<double>((p[0] - x) * (p[0] - x) + (p[1] - y) * (p[1] - y));
  };
}

}  // namespace

TEST_CASE("Exhaustive search tries every point, or spares what must fail", "[unit]") {
  const slapo::TuneSpace space{{10, 10}, {1, 1}};
  int calls = 0;
  const slapo::TuneResult all = slapo::exhaustive(space, hill(4, 3, 9, &calls), false);
  CHECK(calls == 100);
  CHECK(all.evaluations == 100);
  CHECK(all.best == GridPoint{4, 3});
  CHECK(all.value == 100.0);
  // x + y <= 9 has 55 points; of the others each row's first fails, but for row 0, which has none.
  const slapo::TuneResult stop = slapo::exhaustive(space, hill(4, 3, 9), true);
  CHECK(stop.best == all.best);
  CHECK(stop.evaluations == 55 + 9);
  CHECK(stop.failures == 9);
}

TEST_CASE("Coordinate descent climbs a hill with few evaluations", "[prop]") {
  const slapo::TuneSpace space{{12, 12}, {1, 1}};
  sim::RandomStream random(4, "tune");
  for (int run = 0; run < 50; ++run) {
    const auto x = static_cast<std::int64_t>(random.below(8)), y = static_cast<std::int64_t>(random.below(8));
    const slapo::TuneResult found =
        slapo::coordinate_descent(space, hill(x, y, 22), {}, random.child(static_cast<std::uint64_t>(run)));
    CHECK(found.best == GridPoint{x, y});
    CHECK(found.evaluations <= 30);  // along each axis and one past the peak, then four neighbours
    CHECK(found.evaluations_to_best <= found.evaluations);
  }
}

TEST_CASE("Descent stops at errors, and at a corner of them needs another start", "[unit]") {
  // The peak (8, 8) is out of memory, the best that fits lies on the border x + y = 9.
  const slapo::TuneSpace space{{10, 10}, {1, 1}};
  const slapo::TuneResult once = slapo::coordinate_descent(space, hill(8, 8, 9), {}, sim::RandomStream(1, "tune"));
  CHECK(once.value < slapo::exhaustive(space, hill(8, 8, 9), true).value);
  const slapo::TuneResult more =
      slapo::coordinate_descent(space, hill(8, 8, 9), {.restarts = 40}, sim::RandomStream(1, "tune"));
  CHECK(more.value >= once.value);
  const slapo::TuneResult none = slapo::coordinate_descent(
      space, [](const GridPoint&) { return std::optional<double>(); }, {}, sim::RandomStream(1, "tune"));
  CHECK_FALSE(none.value);
  CHECK(none.failures == 1);
}

TEST_CASE("A tolerance walks over level ground", "[unit]") {
  // One axis: 1, 0.99, 0.99, 2: only a walker that accepts one percent less finds the 2.
  const slapo::TuneSpace space{{4}, {0}};
  const slapo::Evaluate evaluate = [](const GridPoint& p) -> std::optional<double> {
    return std::vector{1.0, 0.99, 0.99, 2.0}[static_cast<std::size_t>(p[0])];
  };
  CHECK(slapo::coordinate_descent(space, evaluate, {}, sim::RandomStream(1, "t")).value == 1.0);
  CHECK(slapo::coordinate_descent(space, evaluate, {.tolerance = 0.02}, sim::RandomStream(1, "t")).value == 2.0);
}

TEST_CASE("What demands more than a point that failed is spared, in the direction in which memory grows", "[unit]") {
  // Three axes of three points: larger first indices demand more, smaller second ones, the third says nothing.
  const slapo::TuneSpace space{{3, 3, 3}, {1, -1, 0}};
  std::vector<GridPoint> tried;
  const auto run = [&](const GridPoint& fails, bool stop) {
    tried.clear();
    return slapo::exhaustive(
        space,
        [&](const GridPoint& p) -> std::optional<double> {
          tried.push_back(p);
          if (p[0] >= fails[0] && p[1] <= fails[1] && p[2] == fails[2]) return std::nullopt;
          return static_cast<double>(p[0]);
        },
        stop);
  };
  const slapo::TuneResult stop = run({1, 1, 2}, true);
  CHECK(tried.front() == GridPoint{0, 2, 0});  // the least demand first
  CHECK(tried.back() == GridPoint{2, 0, 1});
  // Of the four that fail, (1 or 2, 1 or 0, 2), the first is tried alone.
  CHECK(stop.failures == 1);
  CHECK(stop.evaluations == 27 - 3);
  CHECK(std::count(tried.begin(), tried.end(), GridPoint{1, 1, 2}) == 1);
  for (const GridPoint& spared : {GridPoint{2, 1, 2}, GridPoint{1, 0, 2}, GridPoint{2, 0, 2}})
    CHECK(std::count(tried.begin(), tried.end(), spared) == 0);
  CHECK(stop.best == GridPoint{2, 2, 0});  // of equals the first
  CHECK(stop.value == 2.0);
  CHECK(stop.evaluations_to_best ==
        static_cast<std::int64_t>(std::find(tried.begin(), tried.end(), GridPoint{2, 2, 0}) - tried.begin()) + 1);
  const slapo::TuneResult all = run({1, 1, 2}, false);
  CHECK(all.failures == 4);
  CHECK(all.evaluations == 27);
}

TEST_CASE("A descent begins where least is demanded, and walks as far as values do not fall", "[unit]") {
  const auto visited = [](const slapo::TuneSpace& space, const std::vector<double>& values,
                          slapo::TuneOptions options) {
    std::vector<std::int64_t> tried;
    const slapo::TuneResult result = slapo::coordinate_descent(
        space,
        [&](const GridPoint& p) -> std::optional<double> {
          tried.push_back(p[0]);
          const double value = values.at(static_cast<std::size_t>(p[0]));
          return value < 0 ? std::nullopt : std::optional(value);
        },
        options, sim::RandomStream(1, "t"));
    CHECK(result.evaluations == static_cast<std::int64_t>(tried.size()));
    return std::pair(tried, result.best);
  };
  using Tried = std::vector<std::int64_t>;
  const slapo::TuneSpace up{{6}, {1}}, down{{6}, {-1}}, neither{{6}, {0}};
  CHECK(visited(up, {1, 2, 3, 2, 9, 9}, {}) == std::pair(Tried{0, 1, 2, 3}, GridPoint{2}));
  CHECK(visited(neither, {1, 2, 3, 2, 9, 9}, {}) == std::pair(Tried{0, 1, 2, 3}, GridPoint{2}));
  CHECK(visited(down, {9, 9, 2, 3, 2, 1}, {}) == std::pair(Tried{5, 4, 3, 2}, GridPoint{3}));
  // Level ground is walked over, and is no better place.
  CHECK(visited(up, {1, 1, 1, 0, 9, 9}, {}) == std::pair(Tried{0, 1, 2, 3}, GridPoint{0}));
  CHECK(visited(up, {1, 1, 2, 2, 1, 9}, {}) == std::pair(Tried{0, 1, 2, 3, 4}, GridPoint{2}));
  // A point without a value ends a walk; the end of the axis too.
  CHECK(visited(up, {1, 2, -1, 9, 9, 9}, {}) == std::pair(Tried{0, 1, 2}, GridPoint{1}));
  CHECK(visited(up, {1, 2, 3, 4, 5, 6}, {}) == std::pair(Tried{0, 1, 2, 3, 4, 5}, GridPoint{5}));
  // A tolerance of a half: 2 after 4 is walked over, 1.9 is not.
  CHECK(visited(up, {1, 4, 2, 5, 9, 1}, {.tolerance = 0.5}) == std::pair(Tried{0, 1, 2, 3, 4, 5}, GridPoint{4}));
  CHECK(visited(up, {1, 4, 1.9, 5, 9, 1}, {.tolerance = 0.5}) == std::pair(Tried{0, 1, 2}, GridPoint{1}));
  // A start that fails ends the descent; others begin elsewhere, and no point is tried twice.
  CHECK(visited(neither, {-1, 2, 3, 4, 5, 6}, {}) == std::pair(Tried{0}, GridPoint{}));
  const auto [tried, best] = visited(neither, {-1, 2, 3, 4, 5, 6}, {.restarts = 30});
  CHECK(best == GridPoint{5});
  CHECK(tried.size() <= 6);
}

TEST_CASE("Rounds over the axes go on as long as one of them moved something", "[unit]") {
  // Stairs: (0, 0), (1, 0), (1, 1), (2, 1), (2, 2) … each a step up, everything beside them worth nothing.
  const slapo::TuneSpace space{{6, 6}, {0, 0}};
  const slapo::Evaluate stairs = [](const GridPoint& p) -> std::optional<double> {
    return p[0] == p[1] || p[0] == p[1] + 1 ? static_cast<double>(p[0] + p[1]) : -1.0;
  };
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const slapo::TuneResult found = slapo::coordinate_descent(space, stairs, {}, sim::RandomStream(seed, "t"));
    CHECK(found.best == GridPoint{5, 5});
    CHECK(found.value == 10.0);
  }
}

}  // namespace test_slapo_tune
