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

}  // namespace test_slapo_tune
