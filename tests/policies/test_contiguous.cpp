#include "tests/policies/kv_support.hpp"

namespace test_contiguous {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;

namespace {

const Sequence kOne{};

}  // namespace

TEST_CASE("slabs go into the first hole that is large enough", "[unit]") {
  const auto kv = make_cache("contiguous", "{}", 100);
  REQUIRE(kv->reserve({0}, kOne, 30));
  REQUIRE(kv->reserve({1}, kOne, 20));
  REQUIRE(kv->reserve({2}, kOne, 30));
  CHECK(kv->free_blocks() == 20);
  kv->release({0}, kOne, 0, Leave::keep);
  CHECK(kv->free_blocks() == 30);           // 50 tokens are free, in holes of 30 and 20
  CHECK_FALSE(kv->reserve({3}, kOne, 31));  // external fragmentation
  REQUIRE(kv->reserve({3}, kOne, 15));      // first fit: [0, 15)
  CHECK(kv->free_blocks() == 20);
  REQUIRE(kv->reserve({3}, kOne, 25));  // grows into the hole behind it
  CHECK(kv->counters().moved_tokens == 0);
  REQUIRE(kv->reserve({3}, kOne, 45));  // 20 more, of the 25 that are left in two holes: all move
  CHECK(kv->counters().moved_tokens == 20 + 30 + 25);
  CHECK(kv->used_bytes() == 95);
}

TEST_CASE("chunks are powers of two", "[unit]") {
  // Table 1 of the PagedAttention paper: 15.7k places; seven reservations of 2,048 fit, and 8.85 % is left.
  const auto kv = make_cache("buddy", "{}", 15'728);
  std::uint32_t count = 0;
  while (kv->reserve({count}, kOne, 2048)) ++count;
  CHECK(count == 7);
  CHECK(15'728 - kv->allocated_tokens() == 1392);
  CHECK(kv->free_blocks() == 1024);  // 1,392 = 1024 + 256 + 64 + 32 + 16
  CHECK(kv->blocks_for(1025) == 2048);
  CHECK_FALSE(kv->reserve({9}, kOne, 1025));
  REQUIRE(kv->reserve({9}, kOne, 600));
  CHECK(kv->held_blocks({9}) == 1024);
  CHECK(kv->allocated_tokens() == 7 * 2048 + 600);
}

TEST_CASE("halves that are both free join again", "[unit]") {
  const auto kv = make_cache("buddy", "{}", 64);
  for (std::uint32_t i = 0; i < 4; ++i) REQUIRE(kv->reserve({i}, kOne, 16));
  CHECK(kv->free_blocks() == 0);
  kv->release({0}, kOne, 0, Leave::keep);
  kv->release({2}, kOne, 0, Leave::keep);
  CHECK(kv->free_blocks() == 16);  // 32 are free, but not side by side
  kv->release({1}, kOne, 0, Leave::keep);
  CHECK(kv->free_blocks() == 32);
  kv->release({3}, kOne, 0, Leave::keep);
  CHECK(kv->free_blocks() == 64);
}

TEST_CASE("places are conserved, and what is said to be free can be had", "[prop]") {
  const std::string name = GENERATE("contiguous", "buddy");
  CAPTURE(name);
  sim::RandomStream random(3, name);
  for (int round = 0; round < 20; ++round) {
    const auto total = static_cast<std::int64_t>(200 + random.below(3000));
    const auto kv = make_cache(name, "{}", total);
    std::vector<std::int64_t> asked(20);
    for (int step = 0; step < 1000; ++step) {
      const SeqId id{static_cast<std::uint32_t>(random.below(asked.size()))};
      if (random.below(3) == 0) {
        kv->release(id, kOne, 0, Leave::drop);
        asked[id.index] = 0;
      } else {
        const auto tokens = static_cast<std::int64_t>(1 + random.below(400));
        const bool sure = kv->blocks_to_grow(id, kOne, tokens) <= kv->free_blocks();
        const bool done = kv->reserve(id, kOne, tokens);
        if (sure) REQUIRE(done);
        if (done) asked[id.index] = std::max(asked[id.index], tokens);
      }
      std::int64_t sum = 0, held = 0;
      for (std::uint32_t i = 0; i < asked.size(); ++i) {
        sum += asked[i];
        held += kv->held_blocks({i});
        REQUIRE(kv->held_blocks({i}) >= asked[i]);
      }
      REQUIRE(kv->allocated_tokens() == sum);
      REQUIRE(kv->used_bytes() == held);
      REQUIRE(held <= total);
    }
    for (std::uint32_t i = 0; i < asked.size(); ++i) kv->release({i}, kOne, 0, Leave::drop);
    CHECK(kv->used_bytes() == 0);
    if (name == "contiguous") CHECK(kv->free_blocks() == total);
  }
}

TEST_CASE("chunks that move are counted by what was asked for", "[unit]") {
  // 64 places, chunks of 16 for whoever asks for 9 to 16.
  const auto kv = make_cache("buddy", "{}", 64);
  REQUIRE(kv->reserve({0}, kOne, 10));
  REQUIRE(kv->reserve({0}, kOne, 20));  // [32, 64) is free: it moves there with its 10
  CHECK(kv->counters().moved_tokens == 10);
  kv->release({0}, kOne, 0, Leave::keep);
  for (std::uint32_t i = 0; i < 4; ++i) REQUIRE(kv->reserve({i}, kOne, 10 + i));
  kv->release({1}, kOne, 0, Leave::keep);
  kv->release({3}, kOne, 0, Leave::keep);
  // 32 are free, in two chunks of 16. The third grows, so all are packed: it goes to [0, 32), the first to [32, 48).
  REQUIRE(kv->reserve({2}, kOne, 20));
  CHECK(kv->counters().moved_tokens == 10 + 12 + 10);
  CHECK(kv->free_blocks() == 16);
  // Whoever stands where it will stand does not move: the first of four grows in place, the third stays.
  const auto still = make_cache("buddy", "{}", 64);
  for (std::uint32_t i = 0; i < 4; ++i) REQUIRE(still->reserve({i}, kOne, 10));
  still->release({1}, kOne, 0, Leave::keep);
  still->release({3}, kOne, 0, Leave::keep);
  REQUIRE(still->reserve({0}, kOne, 20));
  CHECK(still->counters().moved_tokens == 0);
}

TEST_CASE("no tokens take no place, and both tell how the memory divides", "[unit]") {
  for (const std::string name : {"contiguous", "buddy"}) {
    CAPTURE(name);
    const auto kv = make_cache(name, "{}", 64);
    CHECK(kv->reports_split());
    CHECK(kv->total_tokens() == 64);
    CHECK(kv->blocks_for(0) == 0);
    CHECK(kv->blocks_for(1) == 1);
    REQUIRE(kv->reserve({0}, kOne, 0));
    CHECK(kv->held_blocks({0}) == 0);
    CHECK(kv->pieces({0}) == 0);
    CHECK(kv->used_bytes() == 0);
    REQUIRE(kv->reserve({0}, kOne, 64));  // all of it
    CHECK(kv->pieces({0}) == 1);
    CHECK(kv->free_blocks() == 0);
    REQUIRE(kv->reserve({1}, kOne, 0));
    CHECK_FALSE(kv->reserve({1}, kOne, 1));
  }
}

TEST_CASE("slabs are moved together in the order in which they lie, the smallest too", "[unit]") {
  // 2: [0, 30), 1: [30, 31), 0: [31, 51), a hole of 19 left by 3, 4: [70, 90), a hole of 10. 4 grows to 45: 1 and 0
  // stay where they are as 2 does, only 4 goes to 51.
  const auto kv = make_cache("contiguous", "{}", 400, 4);
  REQUIRE(kv->reserve({2}, kOne, 30));
  REQUIRE(kv->reserve({1}, kOne, 1));
  REQUIRE(kv->reserve({0}, kOne, 20));
  REQUIRE(kv->reserve({3}, kOne, 19));
  REQUIRE(kv->reserve({4}, kOne, 20));
  CHECK(kv->used_bytes() == 90 * 4);
  kv->release({3}, kOne, 0, Leave::keep);
  REQUIRE(kv->reserve({4}, kOne, 45));
  CHECK(kv->counters().moved_tokens == 20);
  CHECK(kv->free_blocks() == 4);  // 100 - 30 - 1 - 20 - 45
  CHECK(kv->used_bytes() == 96 * 4);
  // Four of one each in four places; 1 and 3 go, and 0 takes two: 2 stays, and one place is free.
  const auto small = make_cache("buddy", "{}", 16, 4);
  for (std::uint32_t i = 0; i < 4; ++i) REQUIRE(small->reserve({i}, kOne, 1));
  CHECK(small->used_bytes() == 16);
  small->release({1}, kOne, 0, Leave::keep);
  small->release({3}, kOne, 0, Leave::keep);
  REQUIRE(small->reserve({0}, kOne, 2));
  CHECK(small->free_blocks() == 1);
  CHECK(small->used_bytes() == 12);
}

TEST_CASE("a slab grows into the hole behind it only as far as that goes, and fails where all is too little",
          "[unit]") {
  const auto kv = make_cache("contiguous", "{}", 100);
  REQUIRE(kv->reserve({0}, kOne, 20));  // [0, 20)
  REQUIRE(kv->reserve({1}, kOne, 30));  // [20, 50)
  REQUIRE(kv->reserve({2}, kOne, 40));  // [50, 90)
  REQUIRE(kv->reserve({2}, kOne, 50));  // all of what is behind
  CHECK(kv->free_blocks() == 0);
  CHECK(kv->counters().moved_tokens == 0);
  kv->release({1}, kOne, 0, Leave::keep);  // a hole of 30
  CHECK_FALSE(kv->reserve({2}, kOne, 81));
  CHECK(kv->held_blocks({2}) == 50);
  CHECK(kv->counters().moved_tokens == 0);
  CHECK(kv->free_blocks() == 30);
  REQUIRE(kv->reserve({0}, kOne, 10));  // fewer than it has
  CHECK(kv->held_blocks({0}) == 20);
  REQUIRE(kv->reserve({2}, kOne, 80));  // moves down, and fills all
  CHECK(kv->counters().moved_tokens == 50);
  CHECK(kv->free_blocks() == 0);
  CHECK(kv->allocated_tokens() == 100);
}

TEST_CASE("holes of a slab's neighbours join, on either side", "[unit]") {
  const auto kv = make_cache("contiguous", "{}", 40);
  for (std::uint32_t i = 0; i < 4; ++i) REQUIRE(kv->reserve({i}, kOne, 10));
  kv->release({0}, kOne, 0, Leave::keep);
  kv->release({2}, kOne, 0, Leave::keep);
  CHECK(kv->free_blocks() == 10);
  kv->release({1}, kOne, 0, Leave::keep);  // between both
  CHECK(kv->free_blocks() == 30);
  kv->release({3}, kOne, 0, Leave::keep);  // behind
  CHECK(kv->free_blocks() == 40);
  kv->release({3}, kOne, 0, Leave::keep);  // has nothing
  kv->release({9}, kOne, 0, Leave::keep);
  CHECK(kv->free_blocks() == 40);
  // The first hole that is large enough, not the smallest: 8 of [0, 10), though [20, 28) would do.
  REQUIRE(kv->reserve({0}, kOne, 10));
  REQUIRE(kv->reserve({1}, kOne, 10));
  REQUIRE(kv->reserve({2}, kOne, 8));
  REQUIRE(kv->reserve({3}, kOne, 12));
  kv->release({0}, kOne, 0, Leave::keep);
  kv->release({2}, kOne, 0, Leave::keep);
  REQUIRE(kv->reserve({4}, kOne, 8));
  CHECK(kv->free_blocks() == 8);
}

TEST_CASE("slabs and chunks hold all branches of a sequence", "[unit]") {
  Sequence three;
  three.branches = 3;
  const auto slabs = make_cache("contiguous", "{}", 100);
  REQUIRE(slabs->reserve({0}, three, 20));
  CHECK(slabs->held_blocks({0}) == 60);
  CHECK(slabs->capacity({0}, three) == 20);
  CHECK(slabs->block_bytes() == 1);
  const auto chunks = make_cache("buddy", "{}", 400, 4);
  REQUIRE(chunks->reserve({0}, three, 20));
  CHECK(chunks->held_blocks({0}) == 64);
  CHECK(chunks->capacity({0}, three) == 21);
  CHECK(chunks->allocated_tokens() == 60);
  CHECK(chunks->block_bytes() == 4);
  CHECK(chunks->used_bytes() == 256);
  CHECK(chunks->pieces({1}) == 0);
  for (const std::string name : {"contiguous", "buddy"}) {
    CHECK(make_cache(name, "{}", 100, 0)->total_blocks() == 0);  // a token that takes nothing
    CHECK(make_cache(name, "{}", -5)->total_blocks() == 0);
    CHECK(make_cache(name, "{}", -5)->free_blocks() == 0);
  }
}

TEST_CASE("the smallest chunk that is large enough is halved, and only its own half joins it", "[unit]") {
  const auto kv = make_cache("buddy", "{}", 48);  // [0, 32) and [32, 48)
  CHECK(kv->free_blocks() == 32);
  REQUIRE(kv->reserve({0}, kOne, 16));  // [32, 48)
  CHECK(kv->free_blocks() == 32);
  REQUIRE(kv->reserve({1}, kOne, 16));  // [0, 16)
  CHECK(kv->free_blocks() == 16);
  REQUIRE(kv->reserve({2}, kOne, 16));  // [16, 32)
  CHECK(kv->free_blocks() == 0);
  kv->release({2}, kOne, 0, Leave::keep);
  kv->release({0}, kOne, 0, Leave::keep);  // side by side, of two chunks
  CHECK(kv->free_blocks() == 16);
  kv->release({1}, kOne, 0, Leave::keep);
  CHECK(kv->free_blocks() == 32);
  kv->release({1}, kOne, 0, Leave::keep);  // has nothing
  CHECK(kv->free_blocks() == 32);
  CHECK(kv->allocated_tokens() == 0);
  // Halved three times: 32 into 16, 8, 4 and 4.
  REQUIRE(kv->reserve({0}, kOne, 16));
  REQUIRE(kv->reserve({1}, kOne, 3));
  CHECK(kv->free_blocks() == 16);
  REQUIRE(kv->reserve({2}, kOne, 16));
  CHECK(kv->free_blocks() == 8);
  REQUIRE(kv->reserve({3}, kOne, 4));
  CHECK(kv->free_blocks() == 8);
}

TEST_CASE("a chunk grows where the sum of the sizes allows it, and remembers the most that was asked for", "[unit]") {
  const auto kv = make_cache("buddy", "{}", 64);
  REQUIRE(kv->reserve({0}, kOne, 20));  // 32
  CHECK(kv->allocated_tokens() == 20);
  REQUIRE(kv->reserve({0}, kOne, 25));  // in place
  REQUIRE(kv->reserve({0}, kOne, 10));
  CHECK(kv->allocated_tokens() == 25);
  CHECK(kv->counters().moved_tokens == 0);
  REQUIRE(kv->reserve({1}, kOne, 16));
  CHECK_FALSE(kv->reserve({0}, kOne, 33));  // 32 more, of 16
  CHECK(kv->held_blocks({0}) == 32);
  CHECK(kv->allocated_tokens() == 25 + 16);
  kv->release({1}, kOne, 0, Leave::keep);
  REQUIRE(kv->reserve({0}, kOne, 33));  // all: packed where it stands
  CHECK(kv->held_blocks({0}) == 64);
  CHECK(kv->used_bytes() == 64);
  CHECK(kv->allocated_tokens() == 33);
  CHECK(kv->counters().moved_tokens == 0);
  CHECK_FALSE(kv->reserve({1}, kOne, 1));
}

}  // namespace test_contiguous
