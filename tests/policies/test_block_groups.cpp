// Where neighbouring blocks are put: seen by how many runs a sequence has after it grew.
#include "tests/policies/kv_support.hpp"

namespace test_block_groups {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;

namespace {

const Sequence kOne{};

std::unique_ptr<KvCache> groups_of(std::int64_t blocks) {
  return make_cache("block_groups", R"({"block_tokens": 1})", blocks);
}

}  // namespace

TEST_CASE("block groups: a newcomer stands in the middle of the largest hole, if that has four times what it asks",
          "[unit]") {
  const auto kv = groups_of(16);
  REQUIRE(kv->reserve({0}, kOne, 4));  // [8, 12)
  REQUIRE(kv->reserve({0}, kOne, 8));  // grows to the end
  CHECK(kv->pieces({0}) == 1);
  REQUIRE(kv->reserve({0}, kOne, 9));  // no more behind it: of [0, 8) the middle, 4
  CHECK(kv->pieces({0}) == 2);
  REQUIRE(kv->reserve({0}, kOne, 12));  // [4, 8)
  CHECK(kv->pieces({0}) == 2);
  REQUIRE(kv->reserve({0}, kOne, 13));  // of [0, 4) the middle
  CHECK(kv->pieces({0}) == 3);
  REQUIRE(kv->reserve({0}, kOne, 15));  // [2, 4), and of [0, 2) the start
  CHECK(kv->pieces({0}) == 4);
  REQUIRE(kv->reserve({0}, kOne, 16));
  CHECK(kv->pieces({0}) == 4);
  CHECK(kv->free_blocks() == 0);
  CHECK_FALSE(kv->reserve({1}, kOne, 1));
  kv->release({0}, kOne, 16, Leave::keep);
  CHECK(kv->pieces({0}) == 0);

  const auto large = groups_of(16);
  REQUIRE(large->reserve({0}, kOne, 5));  // not four times: [0, 5)
  REQUIRE(large->reserve({0}, kOne, 16));
  CHECK(large->pieces({0}) == 1);
}

TEST_CASE("block groups: of holes of one size the last is taken", "[unit]") {
  const auto kv = groups_of(16);
  REQUIRE(kv->reserve({0}, kOne, 4));  // [8, 12)
  REQUIRE(kv->reserve({1}, kOne, 4));  // [0, 8) has not four times that: [0, 4)
  REQUIRE(kv->reserve({2}, kOne, 4));  // of [4, 8) and [12, 16)
  REQUIRE(kv->reserve({0}, kOne, 5));  // so that the first cannot go on behind itself
  CHECK(kv->pieces({0}) == 2);
  const auto other = groups_of(16);
  REQUIRE(other->reserve({0}, kOne, 4));
  REQUIRE(other->reserve({1}, kOne, 4));
  REQUIRE(other->reserve({1}, kOne, 8));  // behind itself
  CHECK(other->pieces({1}) == 1);
  REQUIRE(other->reserve({0}, kOne, 8));
  CHECK(other->pieces({0}) == 1);
}

TEST_CASE("block groups: what is asked for is spread over holes, the largest first", "[unit]") {
  const auto kv = groups_of(16);
  for (std::uint32_t i = 0; i < 16; ++i) REQUIRE(kv->reserve({i}, kOne, 1));
  // Where the sixteen stand does not matter: all neighbours are given back, holes join on both sides.
  for (std::uint32_t i = 0; i < 16; ++i) kv->release({i}, kOne, 1, Leave::keep);
  CHECK(kv->free_blocks() == 16);
  REQUIRE(kv->reserve({0}, kOne, 16));
  CHECK(kv->pieces({0}) == 1);
  kv->release({0}, kOne, 16, Leave::keep);

  REQUIRE(kv->reserve({1}, kOne, 5));  // [0, 5)
  REQUIRE(kv->reserve({2}, kOne, 3));  // of [5, 16) the start
  REQUIRE(kv->reserve({3}, kOne, 8));  // [8, 16)
  kv->release({1}, kOne, 5, Leave::keep);
  kv->release({3}, kOne, 8, Leave::keep);
  REQUIRE(kv->reserve({4}, kOne, 13));  // [8, 16) and [0, 5)
  CHECK(kv->pieces({4}) == 2);
  CHECK(kv->free_blocks() == 0);
  kv->release({2}, kOne, 3, Leave::keep);
  CHECK(kv->free_blocks() == 3);
}

TEST_CASE("block groups: blocks that decodes took are placed when one leaves them", "[unit]") {
  const auto kv = make_cache("block_groups", "{}", 160);  // 10 blocks of 16
  REQUIRE(kv->reserve({0}, kOne, 16));
  REQUIRE(kv->reserve({1}, kOne, 16));
  kv->take(3);
  CHECK(kv->free_blocks() == 5);
  CHECK(kv->used_bytes() == 80);
  CHECK(kv->held_blocks({0}) == 1);
  kv->settle({0}, kOne, 48);
  CHECK(kv->held_blocks({0}) == 3);
  CHECK(kv->capacity({0}, kOne) == 48);
  kv->settle({1}, kOne, 32);
  CHECK(kv->free_blocks() == 5);
  CHECK_THROWS_WITH(kv->settle({1}, kOne, 48), "block groups: a sequence settles blocks nobody took");
  CHECK_THROWS_WITH(kv->take(6), "block groups: more blocks taken than are free");
  kv->release({9}, kOne, 1, Leave::keep);  // nobody
  CHECK(kv->free_blocks() == 5);
  CHECK(kv->held_blocks({9}) == 0);
  CHECK(kv->pieces({9}) == 0);
}

TEST_CASE("block groups: sizes, branches and an empty cache", "[unit]") {
  const auto kv = make_cache("block_groups", "{}", 1600, 10);
  CHECK(kv->total_blocks() == 10);
  CHECK(kv->block_bytes() == 160);
  CHECK(kv->growth_tokens() == 16);
  CHECK(kv->blocks_for(17) == 2);
  Sequence four;
  four.prompt_tokens = 40;
  four.branches = 4;
  CHECK(kv->blocks_of(four, 40) == 2 + 4);
  REQUIRE(kv->reserve({0}, four, 40));
  CHECK(kv->capacity({0}, four) == 48);
  CHECK_FALSE(kv->reserve({0}, four, 65));  // 2 + 4 x 3 are 14
  CHECK(kv->held_blocks({0}) == 6);
  REQUIRE(kv->reserve({0}, four, 64));
  CHECK(kv->used_bytes() == 1600);
  const auto total = [](std::int64_t bytes, std::int64_t each) {
    return make_cache("block_groups", "{}", bytes, each)->total_blocks();
  };
  CHECK(total(159, 10) == 0);
  CHECK(total(160, 10) == 1);
  CHECK(total(-5, 10) == 0);
  CHECK(total(160, 0) == 0);
}

}  // namespace test_block_groups
