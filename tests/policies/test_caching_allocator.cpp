// PyTorch's caching allocator: sizes by its constants, blocks split and joined, segments that stay.
#include <catch2/catch.hpp>
#include <map>

#include "policies/memory/caching_allocator.hpp"
#include "sim/base/random.hpp"

namespace test_caching_allocator {

using orrery::policies::CachingAllocator;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

}  // namespace

TEST_CASE("Segments are of 2 MiB, of 20 MiB, or of a request's own size", "[golden][memory]") {
  struct Case {
    std::int64_t request, block, segment;
  };
  for (const Case& one : {Case{1, 512, 2 * kMiB},                             // rounded to 512 bytes
                          Case{513, 1024, 2 * kMiB},                          //
                          Case{kMiB, kMiB, 2 * kMiB},                         // the largest small one
                          Case{kMiB + 1, kMiB + 512, 20 * kMiB},              //
                          Case{10 * kMiB - 512, 10 * kMiB - 512, 20 * kMiB},  // the largest of a shared segment
                          Case{10 * kMiB, 10 * kMiB, 10 * kMiB},              // its own, in steps of 2 MiB
                          Case{13 * kMiB - 512, 13 * kMiB - 512, 14 * kMiB}}) {
    CAPTURE(one.request);
    CachingAllocator allocator;
    (void)allocator.allocate(one.request);
    // What is left of a segment is a block of its own where it is more than 1 MiB; 1 MiB and 512 bytes are.
    CHECK(allocator.allocated() == one.block);
    CHECK(allocator.reserved() == one.segment);
  }
  // Of 14 MiB for 13 MiB nothing is split off: 1 MiB is left.
  CachingAllocator whole;
  (void)whole.allocate(13 * kMiB);
  CHECK(whole.allocated() == 14 * kMiB);
}

TEST_CASE("The smallest free block is taken, and free neighbours join", "[golden][memory]") {
  CachingAllocator allocator;
  const auto a = allocator.allocate(30 * kMiB), b = allocator.allocate(40 * kMiB);
  CHECK(allocator.address(a) == 0);
  CHECK(allocator.address(b) == 30 * kMiB);
  allocator.free(b);
  allocator.free(a);
  // 12 MiB come from the 30, not from the 40; the rest of it takes 18 exactly.
  const auto c = allocator.allocate(12 * kMiB), d = allocator.allocate(18 * kMiB);
  CHECK(allocator.address(c) == 0);
  CHECK(allocator.address(d) == 12 * kMiB);
  CHECK(allocator.reserved() == 70 * kMiB);
  // Free in either order they are one again: 30 MiB fit, over segments they do not join: 50 do not.
  allocator.free(c);
  allocator.free(d);
  CHECK(allocator.address(allocator.allocate(30 * kMiB)) == 0);
  CHECK(allocator.address(allocator.allocate(50 * kMiB)) == 70 * kMiB);
  CHECK(allocator.peak_reserved() == 120 * kMiB);
}

TEST_CASE("Small requests do not take from large segments", "[unit][memory]") {
  CachingAllocator allocator;
  allocator.free(allocator.allocate(20 * kMiB));
  (void)allocator.allocate(kMiB);
  CHECK(allocator.reserved() == 22 * kMiB);
}

TEST_CASE("A device that is full gets back segments that are free as a whole, and no others", "[golden][memory]") {
  CachingAllocator allocator(100 * kMiB);
  const auto a = allocator.allocate(40 * kMiB);
  const auto b = allocator.allocate(30 * kMiB);
  const auto c = allocator.allocate(30 * kMiB);
  allocator.free(a);
  allocator.free(b);
  (void)allocator.allocate(20 * kMiB);  // of b's segment, which stays for it
  CHECK(allocator.reserved() == 100 * kMiB);
  // 40 go back, 60 stay: 40 more fit, 42 would not.
  (void)allocator.allocate(40 * kMiB);
  CHECK_FALSE(allocator.exceeded());
  allocator.free(c);
  const auto d = allocator.allocate(42 * kMiB);  // 40 + 30 (a third of it free) + 30 that go back + 42
  CHECK(allocator.exceeded());
  CHECK(allocator.reserved() == 112 * kMiB);
  allocator.free(d);
}

TEST_CASE("Blocks never lie on each other, and what is in use is what was asked for", "[prop][memory]") {
  orrery::sim::RandomStream random(11, "blocks");
  for (int round = 0; round < 20; ++round) {
    CachingAllocator allocator;
    std::map<std::int64_t, std::pair<std::int64_t, CachingAllocator::Block>> live;  // by address
    std::int64_t asked = 0;
    for (int i = 0; i < 2000; ++i) {
      if (!live.empty() && random.below(2) == 0) {
        const auto one = std::next(live.begin(), static_cast<std::ptrdiff_t>(random.below(live.size())));
        asked -= one->second.first;
        allocator.free(one->second.second);
        live.erase(one);
      } else {
        const auto bytes = static_cast<std::int64_t>(1 + random.below(std::size_t{1} << (8 + random.below(18))));
        const auto block = allocator.allocate(bytes);
        asked += bytes;
        const auto [place, fresh] = live.emplace(allocator.address(block), std::pair(bytes, block));
        REQUIRE(fresh);
        if (place != live.begin()) REQUIRE(std::prev(place)->first + std::prev(place)->second.first <= place->first);
        if (std::next(place) != live.end()) REQUIRE(place->first + bytes <= std::next(place)->first);
      }
      REQUIRE(allocator.allocated() >= asked);
      REQUIRE(allocator.reserved() >= allocator.allocated());
    }
    for (const auto& [address, own] : live) allocator.free(own.second);
    REQUIRE(allocator.allocated() == 0);
    // Everything is free and joined: the whole of the largest segment can be had again without another.
    const std::int64_t before = allocator.reserved();
    (void)allocator.allocate(2 * kMiB);
    REQUIRE(allocator.reserved() == before);
  }
}

}  // namespace test_caching_allocator
