// What planners are made of: gaps, orders, the index of what is live together, the exact search; against slow versions.
#include <catch2/catch.hpp>
#include <numeric>

#include "policies/memory/canonical_search.hpp"
#include "policies/memory/online.hpp"
#include "policies/memory/ordered.hpp"
#include "policies/memory/placed.hpp"
#include "sim/base/random.hpp"
#include "tests/policies/brute_force_plan.hpp"

namespace test_placing {

using namespace orrery;
using namespace orrery::policies;
using Offsets = std::vector<std::int64_t>;
using Order = std::vector<std::uint32_t>;

namespace {

std::vector<Buffer> random_buffers(sim::RandomStream& random, std::size_t count, std::int64_t steps,
                                   std::int64_t length, bool aligned = false) {
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < count; ++i) {
    Buffer buffer;
    buffer.begin = random.integer(0, steps - 1);
    buffer.end = buffer.begin + random.integer(1, length);
    buffer.bytes = random.integer(1, 20);
    if (aligned) buffer.alignment = std::int64_t{1} << random.below(4);
    buffers.push_back(buffer);
  }
  return buffers;
}

bool together(const Buffer& a, const Buffer& b) {
  return a.begin < b.end && b.begin < a.end;
}

/// The lowest offset at which buffer `i` meets none of those placed so far, by moving up past whatever it meets.
std::int64_t lowest_slowly(const std::vector<Buffer>& buffers, const Offsets& offsets, const std::vector<bool>& placed,
                           std::size_t i) {
  std::int64_t offset = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t j = 0; j < buffers.size(); ++j)
      if (placed[j] && together(buffers[i], buffers[j]) && offset < offsets[j] + buffers[j].bytes &&
          offsets[j] < offset + buffers[i].bytes) {
        offset = align_up(offsets[j] + buffers[j].bytes, buffers[i].alignment);
        moved = true;
      }
  }
  return offset;
}

Order shuffled(sim::RandomStream& random, std::size_t count) {
  Order order(count);
  std::iota(order.begin(), order.end(), 0U);
  random.shuffle(std::span(order));
  return order;
}

using Spans = std::vector<std::pair<std::int64_t, std::int64_t>>;
Spans spans(const Gaps& gaps) {
  return {gaps.all().begin(), gaps.all().end()};
}

}  // namespace

TEST_CASE("offsets are rounded up to the alignment", "[unit]") {
  CHECK(align_up(0, 8) == 0);
  CHECK(align_up(1, 8) == 8);
  CHECK(align_up(8, 8) == 8);
  CHECK(align_up(9, 8) == 16);
  CHECK(align_up(7, 3) == 9);
  CHECK(align_up(7, 1) == 7);
}

TEST_CASE("gaps are taken in part and joined with both neighbours", "[unit]") {
  constexpr std::int64_t kEndless = Gaps::kEndless;
  Gaps gaps;
  CHECK(spans(gaps) == Spans{{0, kEndless}});
  gaps.take(gaps.all().begin(), 10, 5);  // [10, 15)
  CHECK(spans(gaps) == Spans{{0, 10}, {15, kEndless}});
  gaps.take(gaps.all().begin(), 0, 4);
  CHECK(spans(gaps) == Spans{{4, 10}, {15, kEndless}});
  gaps.take(gaps.all().begin(), 6, 4);  // its end
  CHECK(spans(gaps) == Spans{{4, 6}, {15, kEndless}});
  gaps.take(gaps.all().begin(), 4, 2);  // all of it
  CHECK(spans(gaps) == Spans{{15, kEndless}});
  gaps.give(4, 2);
  gaps.give(10, 3);
  CHECK(spans(gaps) == Spans{{4, 6}, {10, 13}, {15, kEndless}});
  gaps.give(6, 4);  // between two
  CHECK(spans(gaps) == Spans{{4, 13}, {15, kEndless}});
  gaps.give(0, 4);  // before one
  CHECK(spans(gaps) == Spans{{0, 13}, {15, kEndless}});
  gaps.give(13, 2);
  CHECK(spans(gaps) == Spans{{0, kEndless}});
}

TEST_CASE("the lowest gap, and the smallest, that holds a buffer", "[unit]") {
  Gaps gaps;  // [0, 8), [10, 14), [20, 24), and from 30 on
  gaps.take(gaps.all().begin(), 8, 2);
  gaps.take(std::prev(gaps.all().end()), 14, 6);
  gaps.take(std::prev(gaps.all().end()), 24, 6);
  REQUIRE(spans(gaps) == Spans{{0, 8}, {10, 14}, {20, 24}, {30, Gaps::kEndless}});
  const auto lowest = [&](std::int64_t bytes, std::int64_t alignment = 1) {
    return lowest_gap(gaps, {0, 1, bytes, alignment})->first;
  };
  const auto smallest = [&](std::int64_t bytes, std::int64_t alignment = 1) {
    return smallest_gap(gaps, {0, 1, bytes, alignment})->first;
  };
  CHECK(lowest(4) == 0);
  CHECK(lowest(8) == 0);
  CHECK(lowest(9) == 30);
  CHECK(smallest(4) == 10);  // of equal ones the lowest
  CHECK(smallest(5) == 0);
  CHECK(smallest(8) == 0);
  CHECK(smallest(9) == 30);
  CHECK(smallest(3, 4) == 20);  // 10 rounds up to 12, which leaves two
  CHECK(smallest(2, 4) == 10);
  CHECK(lowest(3, 16) == 0);
  CHECK(fits({0, 1, 4, 1}, 10, 14));
  CHECK_FALSE(fits({0, 1, 5, 1}, 10, 14));
  CHECK_FALSE(fits({0, 1, 3, 4}, 10, 14));
  CHECK(fits({0, 1, 1000, 4}, 10, Gaps::kEndless));
}

TEST_CASE("placing in order of time equals a search for the first place among what lives", "[prop]") {
  sim::RandomStream random(2, "online");
  for (int round = 0; round < 100; ++round) {
    std::vector<Buffer> buffers = random_buffers(random, 30, 20, 8, round % 2 == 0);
    std::stable_sort(buffers.begin(), buffers.end(),
                     [](const Buffer& a, const Buffer& b) { return a.begin < b.begin; });
    Offsets slow(buffers.size());
    std::vector<bool> placed(buffers.size(), false);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      // What lives when it begins; what begins later is not placed yet.
      slow[i] = lowest_slowly(buffers, slow, placed, i);
      placed[i] = true;
    }
    REQUIRE(place_online(buffers, lowest_gap) == slow);
  }
}

TEST_CASE("placing in a given order equals moving up past what is met, also for many", "[prop]") {
  sim::RandomStream random(3, "ordered");
  for (int round = 0; round < 60; ++round) {
    // Chunks of entries are cut at 256.
    const bool many = round < 3;
    const std::vector<Buffer> buffers =
        many ? random_buffers(random, 900, 3000, 60, round == 1) : random_buffers(random, 25, 15, 8, round % 2 == 0);
    const Order order = shuffled(random, buffers.size());
    Offsets slow(buffers.size());
    std::vector<bool> placed(buffers.size(), false);
    for (const std::uint32_t i : order) {
      slow[i] = lowest_slowly(buffers, slow, placed, i);
      placed[i] = true;
    }
    REQUIRE(place_in_order(buffers, order) == slow);
  }
}

TEST_CASE("buffers are ordered by keys, the largest first, of equals by index", "[unit]") {
  // Bytes, steps, area: (2, 4, 8), (8, 1, 8), (3, 6, 18), (2, 2, 4), (8, 2, 16).
  const std::vector<Buffer> buffers{{0, 4, 2}, {1, 2, 8}, {3, 9, 3}, {0, 2, 2}, {7, 9, 8}};
  CHECK(order_by(buffers, "z") == Order{1, 4, 2, 0, 3});
  CHECK(order_by(buffers, "w") == Order{2, 0, 3, 4, 1});
  CHECK(order_by(buffers, "a") == Order{2, 4, 0, 1, 3});
  CHECK(order_by(buffers, "zw") == Order{4, 1, 2, 0, 3});
  CHECK(order_by(buffers, "wz") == Order{2, 0, 4, 3, 1});
  // Live: steps 0: 4, 1: 12, 2: 2, 3: 5, 4 to 6: 3, 7 and 8: 11.
  CHECK(order_by(buffers, "t") == Order{0, 1, 3, 2, 4});
  CHECK(order_by(buffers, "tz") == Order{1, 0, 3, 4, 2});
  CHECK(order_by(buffers, "") == Order{0, 1, 2, 3, 4});
}

TEST_CASE("the most that is live at a buffer's steps is found as by looking at each", "[prop]") {
  sim::RandomStream random(4, "contention");
  for (int round = 0; round < 100; ++round) {
    const std::vector<Buffer> buffers = random_buffers(random, 1 + random.below(40), 60, 1 + round % 50);
    Offsets most(buffers.size(), 0);
    for (std::size_t i = 0; i < buffers.size(); ++i)
      for (std::int64_t step = buffers[i].begin; step < buffers[i].end; ++step) {
        std::int64_t live = 0;
        for (const Buffer& other : buffers)
          if (other.begin <= step && step < other.end) live += other.bytes;
        most[i] = std::max(most[i], live);
      }
    Order slow(buffers.size());
    std::iota(slow.begin(), slow.end(), 0U);
    std::stable_sort(slow.begin(), slow.end(), [&](std::uint32_t a, std::uint32_t b) { return most[a] > most[b]; });
    REQUIRE(order_by(buffers, "t") == slow);
  }
}

TEST_CASE("the index of placed buffers finds those that live together with one, in order of begin", "[prop]") {
  sim::RandomStream random(5, "index");
  for (int round = 0; round < 60; ++round) {
    const std::vector<Buffer> buffers = random_buffers(random, 1 + random.below(40), 30, 10);
    PlacedIndex index(buffers);
    std::vector<bool> placed(buffers.size(), false);
    for (const std::uint32_t next : shuffled(random, buffers.size())) {
      std::vector<std::size_t> found, slow;
      index.for_each_overlap(buffers[next], [&](std::size_t j) { found.push_back(j); });
      for (std::size_t j = 0; j < buffers.size(); ++j)
        if (placed[j] && together(buffers[next], buffers[j])) slow.push_back(j);
      std::stable_sort(slow.begin(), slow.end(),
                       [&](std::size_t a, std::size_t b) { return buffers[a].begin < buffers[b].begin; });
      REQUIRE(found == slow);
      index.insert(next);
      placed[next] = true;
    }
  }
}

TEST_CASE("the exact search finds a plan at the smallest peak and proves that none is below", "[prop]") {
  sim::RandomStream random(6, "canonical");
  for (int round = 0; round < 150; ++round) {
    std::vector<Buffer> buffers = random_buffers(random, 2 + random.below(6), 7, 4);
    if (round % 3 == 0)
      for (Buffer& buffer : buffers) buffer.alignment = 4;  // equal ones: a proof too
    const std::int64_t best = test::brute_force_peak(buffers);
    CanonicalSearch search(buffers);
    const Order rank = shuffled(random, buffers.size());
    for (const std::int64_t capacity : {best, best - 1, best + 3, best, std::int64_t{0}}) {
      std::int64_t budget = 10'000'000;
      const SearchEnd end = search.run(capacity, rank, budget);
      CAPTURE(round, capacity, best);
      REQUIRE(end == (capacity >= best ? SearchEnd::found : SearchEnd::none));
      CHECK(budget < 10'000'000);
      CHECK(budget > 0);
      if (end != SearchEnd::found) continue;
      REQUIRE(plan_fault(buffers, search.offsets()).value_or("") == "");
      REQUIRE(peak_of(buffers, search.offsets()) <= capacity);
    }
    std::int64_t spent = 0;
    CHECK(search.run(best, rank, spent) == SearchEnd::out_of_budget);
  }
}

TEST_CASE("the exact search goes on for a while, stops when its budget is gone, and can be asked again", "[unit]") {
  sim::RandomStream random(7, "budget");
  const std::vector<Buffer> buffers = random_buffers(random, 40, 20, 10);
  CanonicalSearch search(buffers);
  Order rank(buffers.size());
  std::iota(rank.begin(), rank.end(), 0U);
  const std::int64_t bound = lower_bound(buffers);
  std::int64_t budget = 1;
  CHECK(search.run(bound, rank, budget) == SearchEnd::out_of_budget);
  CHECK(budget <= 0);
  budget = 1'000'000;
  CHECK(search.run(bound - 1, rank, budget) == SearchEnd::none);  // below what is live together
  std::int64_t all = 0;
  for (const Buffer& buffer : buffers) all += buffer.bytes;
  CHECK(search.run(all, rank, budget) == SearchEnd::found);
  CHECK(plan_fault(buffers, search.offsets()).value_or("") == "");
}

TEST_CASE("the exact search tries buffers of one floor in the order of their ranks", "[unit]") {
  const std::vector<Buffer> buffers{{0, 2, 3}, {0, 2, 5}, {0, 2, 4}};
  CanonicalSearch search(buffers);
  for (const Order& first : {Order{0, 1, 2}, Order{2, 0, 1}, Order{1, 2, 0}}) {
    // first[i] is the rank of buffer i: the one of rank 0 lies at 0, the others on it in turn.
    std::int64_t budget = 1000;
    REQUIRE(search.run(12, first, budget) == SearchEnd::found);
    Offsets expected(3);
    std::int64_t at = 0;
    for (std::uint32_t rank = 0; rank < 3; ++rank)
      for (std::size_t i = 0; i < 3; ++i)
        if (first[i] == rank) {
          expected[i] = at;
          at += buffers[i].bytes;
        }
    CHECK(search.offsets() == expected);
  }
}

}  // namespace test_placing
