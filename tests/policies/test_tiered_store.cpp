#include "policies/kvcache/tiered_store.hpp"

#include <catch2/catch.hpp>

#include "tests/policies/kv_support.hpp"

namespace test_tiered_store {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;

TEST_CASE("tiers: a copy costs its runs and its bytes", "[unit]") {
  // 100 bytes a block, a byte a ps, 7 ps a copy, 2 copies a run
  TieredStore store({{.capacity_bytes = 1000, .bandwidth = 1e12, .copy_ps = 7}},
                    {.block_bytes = 100, .copies_per_run = 2});
  CHECK(store.swap_out(1, 40, 3, 3) == 3 * 2 * 7 + 300);
  CHECK(store.swap_out(2, 40, 3, 1) == 1 * 2 * 7 + 300);
  CHECK(store.used_bytes(0) == 600);
  CHECK_FALSE(store.swap_out(3, 80, 5, 5));  // 600 + 500 > 1000
  CHECK(store.swap_in(1, 40, 3, 2) == 2 * 2 * 7 + 300);
  CHECK(store.used_bytes(0) == 300);
  CHECK_THROWS_AS(store.swap_in(1, 40, 3, 2), std::logic_error);
  store.drop(2);
  store.drop(2);
  CHECK(store.used_bytes(0) == 0);
  const TierCounters counters = store.counters();
  CHECK(counters.copies == 6 + 2 + 4);
  CHECK(counters.out_bytes == 600);
  CHECK(counters.in_bytes == 300);
  CHECK(counters.refused == 1);
}

TEST_CASE("tiers: with reuse only what was added is copied out again", "[unit]") {
  TieredStore store({{.capacity_bytes = 1000, .bandwidth = 1e12}}, {.block_bytes = 100, .reuse = true});
  CHECK(store.swap_out(1, 40, 3, 3) == 300);  // blocks of 16 tokens: the third is half full
  CHECK(store.swap_in(1, 40, 3, 3) == 300);
  CHECK(store.used_bytes(0) == 300);          // the copy is still there
  CHECK(store.swap_out(1, 70, 5, 5) == 300);  // two new blocks and the one that was half full
  CHECK(store.swap_in(1, 70, 5, 5) == 500);
  CHECK(store.swap_out(1, 70, 5, 5) == 0);  // nothing was added
  CHECK(store.counters().reused_bytes == 200 + 500);
  CHECK(store.swap_in(1, 70, 5, 5) == 500);
  // Nobody waits for it: it makes room.
  CHECK(store.swap_out(2, 128, 8, 8) == 800);
  CHECK(store.counters().dropped == 1);
  CHECK(store.used_bytes(0) == 800);
}

TEST_CASE("tiers: what was used longest ago moves on", "[unit]") {
  TieredStore store({{.capacity_bytes = 500, .bandwidth = 1e12}, {.capacity_bytes = 300, .bandwidth = 1e11}},
                    {.block_bytes = 100});
  CHECK(store.swap_out(1, 48, 3, 3) == 300);
  CHECK(store.swap_out(2, 32, 2, 2) == 200);
  CHECK(store.swap_out(3, 48, 3, 3) == 300);  // 1 goes to the second tier
  CHECK(store.used_bytes(0) == 500);
  CHECK(store.used_bytes(1) == 300);
  CHECK(store.counters().demoted_bytes == 300);
  CHECK_FALSE(store.swap_out(4, 16, 1, 1));    // all is waited for
  CHECK(store.swap_in(1, 48, 3, 3) == 3'000);  // at the second tier's bandwidth
  CHECK(store.swap_out(4, 16, 1, 1) == 100);   // 2 moves on
}

TEST_CASE("block groups: counts are those of paged, runs are few", "[prop]") {
  sim::RandomStream random(7, "block groups");
  const auto groups = make_cache("block_groups", "{}", 400 * 16);
  const auto paged = make_cache("paged", "{}", 400 * 16);
  const Sequence seq{};
  std::vector<std::int64_t> tokens(12, 0);
  std::int64_t runs = 0, blocks = 0;
  for (int step = 0; step < 3'000; ++step) {
    const SeqId id{static_cast<std::uint32_t>(random.below(12))};
    if (random.below(8) == 0) {
      for (KvCache* cache : {groups.get(), paged.get()}) cache->release(id, seq, tokens[id.index], Leave::drop);
      tokens[id.index] = 0;
    } else {
      const std::int64_t more = tokens[id.index] + static_cast<std::int64_t>(random.below(60));
      const bool fits = groups->reserve(id, seq, more);
      REQUIRE(fits == paged->reserve(id, seq, more));
      if (fits) tokens[id.index] = more;
    }
    REQUIRE(groups->free_blocks() == paged->free_blocks());
    REQUIRE(groups->held_blocks(id) == paged->held_blocks(id));
    REQUIRE(groups->used_bytes() == paged->used_bytes());
    REQUIRE(groups->pieces(id) <= groups->held_blocks(id));
    REQUIRE((groups->pieces(id) > 0) == (groups->held_blocks(id) > 0));
    runs += groups->pieces(id);
    blocks += groups->held_blocks(id);
  }
  CHECK(runs * 2 < blocks);
}

TEST_CASE("tiers: a block that was loaded stays longer than one that was only kept", "[unit]") {
  TieredStore store({{.capacity_bytes = 200, .bandwidth = 1e12}}, {.block_bytes = 100, .prefixes = true});
  store.keep_block(1);
  store.keep_block(2);
  CHECK_FALSE(store.has_block(2));  // two copies of 100 ps, one after the other
  store.at(199);
  CHECK(store.has_block(1));
  CHECK_FALSE(store.has_block(2));
  store.at(200);
  CHECK(store.has_block(2));
  const std::vector<std::uint64_t> first{1};
  store.pin_block(1);
  CHECK(store.load_blocks(first, 16, true) == 100);
  store.keep_block(3);  // in place of 2, which was used longest ago
  store.keep_block(4);  // in place of 1
  store.at(10'000);
  CHECK_FALSE(store.has_block(2));
  CHECK_FALSE(store.has_block(1));
  CHECK(store.has_block(3));
  CHECK(store.has_block(4));
  store.keep_block(3);  // is there: no copy, but used just now
  store.keep_block(5);
  store.at(20'000);
  CHECK(store.has_block(3));
  CHECK_FALSE(store.has_block(4));
  CHECK(store.used_bytes(0) == 200);
  CHECK(store.counters().reused_bytes == 100);
  CHECK(store.counters().kept_blocks == 5);
}

}  // namespace test_tiered_store
