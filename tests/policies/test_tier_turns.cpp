// Tiers behind a device: turns of conversations, rooms that are full, and blocks of prefixes, by hand.
#include <catch2/catch.hpp>

#include "policies/kvcache/tiered_store.hpp"

namespace test_tier_turns {

using namespace orrery;
using namespace orrery::policies;

namespace {

/// Blocks of 100 bytes and 16 tokens; a byte a ps.
TieredStore store_of(std::vector<std::int64_t> capacities, TieredStoreOptions options = {}) {
  options.block_bytes = 100;
  std::vector<TierFacts> tiers;
  for (const std::int64_t capacity : capacities) tiers.push_back({.capacity_bytes = capacity, .bandwidth = 1e12});
  return TieredStore(tiers, options);
}

TieredStore turns_of(std::int64_t capacity, bool reuse = false) {
  return store_of({capacity}, {.block_tokens = 16, .reuse = reuse, .turns = true});
}

}  // namespace

TEST_CASE("tiers: what they do is what they were asked to do", "[unit]") {
  const TieredStore plain = store_of({100});
  CHECK_FALSE(plain.overlaps());
  CHECK_FALSE(plain.keeps_turns());
  CHECK_FALSE(plain.takes_prefixes());
  const TieredStore all = store_of({100, 100}, {.overlap = true, .turns = true, .prefixes = true});
  CHECK(all.overlaps());
  CHECK(all.keeps_turns());
  CHECK(all.takes_prefixes());
  CHECK(all.counters().hit_tokens == std::vector<std::int64_t>{0, 0});
}

TEST_CASE("tiers: the next turn goes on from as much as it says alike", "[unit]") {
  const Text said{{1, 30}, {2, 10}};
  struct Case {
    Text text;
    std::int64_t most, tokens, blocks;
  };
  const std::vector<Case> cases{{{{1, 30}, {2, 10}, {3, 9}}, 48, 40, 3},  // all of it
                                {{{1, 30}, {2, 10}, {3, 9}}, 33, 33, 3},
                                {{{1, 30}, {2, 10}, {3, 9}}, 32, 32, 2},  // a block less
                                {{{1, 30}, {4, 10}}, 48, 30, 2},          // went on otherwise
                                {{{1, 16}}, 48, 16, 1},
                                {{{1, 17}}, 48, 17, 2},
                                {{{5, 30}}, 48, 0, 3},  // says something else
                                {{{1, 30}}, 0, 0, 3}};
  for (const Case& one : cases) {
    TieredStore store = turns_of(1000);
    CHECK(store.keep_turn(1, 7, said, 40, 3, 2) == 300);
    CHECK(store.used_bytes(0) == 300);
    CAPTURE(one.tokens, one.most);
    CHECK(store.claim_turn(2, 8, one.text, one.most) == 0);  // nobody's session
    CHECK(store.claim_turn(2, 7, one.text, one.most) == one.tokens);
    CHECK(store.used_bytes(0) == 100 * one.blocks);
    CHECK(store.counters().turns == (one.tokens > 0 ? 1 : 0));
    CHECK(store.counters().turn_tokens == one.tokens);
    if (one.tokens > 0) {
      CHECK(store.claim_turn(3, 7, one.text, one.most) == 0);  // taken
      CHECK(store.swap_in(2, one.tokens, one.blocks, 1) == 100 * one.blocks);
      CHECK(store.used_bytes(0) == 0);
    }
  }
}

TEST_CASE("tiers: without a size of blocks a turn's own is taken", "[unit]") {
  TieredStore store = store_of({1000}, {.turns = true});
  const Text said{{1, 40}};
  CHECK(store.keep_turn(1, 7, said, 40, 3, 1) == 300);  // 40 / 3: 14 tokens a block
  const Text half{{1, 28}};
  CHECK(store.claim_turn(2, 7, half, 100) == 28);
  CHECK(store.used_bytes(0) == 200);
  CHECK(store.keep_turn(3, 8, said, 40, 3, 1) == 300);
  const Text more{{1, 29}};
  CHECK(store.claim_turn(4, 8, more, 100) == 29);
  CHECK(store.used_bytes(0) == 200 + 300);
}

TEST_CASE("tiers: a turn that follows a claimed one copies what was added", "[unit]") {
  TieredStore store = turns_of(1000, true);
  const Text said{{1, 40}}, more{{1, 40}, {2, 30}};
  CHECK(store.keep_turn(1, 7, said, 40, 3, 3) == 300);
  CHECK(store.claim_turn(2, 7, more, 69) == 40);
  CHECK(store.swap_in(2, 40, 3, 3) == 300);
  CHECK(store.used_bytes(0) == 300);
  CHECK(store.keep_turn(2, 7, more, 70, 5, 5) == 300);  // two new blocks and the one that was half full
  CHECK(store.used_bytes(0) == 500);
  CHECK(store.counters().reused_bytes == 200);
  CHECK(store.claim_turn(3, 7, more, 100) == 70);
}

TEST_CASE("tiers: a turn takes the place of the one before, also where there is no room for it", "[unit]") {
  TieredStore store = turns_of(500);
  const Text said{{1, 40}}, more{{1, 80}};
  CHECK(store.keep_turn(1, 7, said, 40, 3, 3) == 300);
  CHECK(store.keep_turn(2, 7, more, 64, 4, 4) == 400);
  CHECK(store.used_bytes(0) == 400);
  CHECK(store.claim_turn(3, 7, more, 100) == 64);
  store.drop(3);
  CHECK(store.keep_turn(1, 7, said, 40, 3, 3) == 300);
  CHECK_FALSE(store.keep_turn(2, 7, more, 96, 6, 6));
  CHECK(store.counters().refused == 1);
  CHECK(store.used_bytes(0) == 0);
  CHECK(store.claim_turn(3, 7, said, 100) == 0);
}

TEST_CASE("tiers: turns that nobody claimed make room, claimed ones do not", "[unit]") {
  TieredStore store = turns_of(500);
  const Text said{{1, 40}};
  CHECK(store.keep_turn(1, 7, said, 40, 3, 3) == 300);
  CHECK(store.swap_out(2, 48, 3, 3) == 300);  // the turn goes
  CHECK(store.counters().dropped == 1);
  CHECK(store.claim_turn(3, 7, said, 100) == 0);
  CHECK(store.keep_turn(4, 8, said, 30, 2, 2) == 200);
  CHECK(store.claim_turn(5, 8, said, 100) == 30);
  CHECK_FALSE(store.swap_out(6, 16, 1, 1));
  CHECK(store.counters().dropped == 1);
}

TEST_CASE("tiers: a copy that has more than the sequence is worth nothing, and runs are no more than blocks",
          "[unit]") {
  TieredStore store = TieredStore({{.capacity_bytes = 1000, .bandwidth = 1e12, .copy_ps = 7}},
                                  {.block_bytes = 100, .copies_per_run = 3, .reuse = true});
  CHECK(store.swap_out(1, 40, 3, 10) == 3 * 3 * 7 + 300);
  CHECK(store.swap_in(1, 40, 3, 10) == 3 * 3 * 7 + 300);
  CHECK(store.swap_out(1, 39, 3, 1) == 3 * 7 + 300);
  CHECK(store.swap_in(1, 39, 3, 1) == 3 * 7 + 300);
  CHECK(store.swap_out(1, 39, 3, 2) == 0);  // no block, no run
  CHECK(store.counters().outs == 3);
  CHECK(store.counters().ins == 2);
  CHECK(store.counters().copies == 9 + 9 + 3 + 3);
  CHECK(store.swap_in(1, 39, 3, 1) == 3 * 7 + 300);
  CHECK(store.swap_out(1, 41, 3, 3) == 3 * 7 + 100);  // the third is written again
}

TEST_CASE("tiers: what a tier cannot hold goes to the next, at that one's bandwidth", "[unit]") {
  TieredStore store({{.capacity_bytes = 500, .bandwidth = 1e12}, {.capacity_bytes = 1000, .bandwidth = 1e11}},
                    {.block_bytes = 100});
  CHECK(store.swap_out(1, 96, 6, 6) == 6000);
  CHECK(store.used_bytes(0) == 0);
  CHECK(store.used_bytes(1) == 600);
  CHECK(store.swap_out(2, 80, 5, 5) == 500);  // just fits the first
  CHECK(store.used_bytes(0) == 500);
  CHECK(store.swap_out(3, 64, 4, 4) == 4000);  // the first cannot give its own to the second
  CHECK(store.used_bytes(1) == 1000);
  CHECK(store.counters().demoted_bytes == 0);
  CHECK_FALSE(store.swap_out(4, 16, 1, 1));
  CHECK_FALSE(store.swap_out(5, 176, 11, 1));  // larger than all
  CHECK(store.counters().refused == 2);
  CHECK(store.counters().outs == 3);
}

TEST_CASE("tiers: room is made down a row of tiers, and given up behind the last", "[unit]") {
  TieredStore store = store_of({200, 200, 200}, {.reuse = true});
  for (std::int64_t key = 1; key <= 3; ++key) {
    CHECK(store.swap_out(key, 32, 2, 2) == 200);
    CHECK(store.swap_in(key, 32, 2, 2) == 200);
  }
  CHECK(store.counters().demoted_bytes == 200 + 400);
  CHECK(store.swap_out(4, 32, 2, 2) == 200);  // 1 is given up, 2 and 3 move on
  CHECK(store.counters().demoted_bytes == 600 + 400);
  CHECK(store.counters().dropped == 1);
  for (const std::size_t tier : {0U, 1U, 2U}) CHECK(store.used_bytes(tier) == 200);
  CHECK_THROWS_AS(store.swap_in(1, 32, 2, 2), std::logic_error);
  CHECK(store.swap_in(2, 32, 2, 2) == 200);
}

TEST_CASE("tiers: where the oldest is waited for, a younger one that is not goes", "[unit]") {
  TieredStore store = store_of({500}, {.reuse = true});
  CHECK(store.swap_out(1, 32, 2, 2) == 200);  // waited for
  CHECK(store.swap_out(2, 32, 2, 2) == 200);
  CHECK(store.swap_in(2, 32, 2, 2) == 200);  // its copy stays, nobody waits
  CHECK(store.swap_out(3, 48, 3, 3) == 300);
  CHECK(store.counters().dropped == 1);
  CHECK(store.used_bytes(0) == 500);
  CHECK(store.swap_in(1, 32, 2, 2) == 200);
  CHECK_THROWS_WITH(store.swap_in(2, 32, 2, 2), "tiers: what was never swapped out is swapped in");
}

TEST_CASE("tiers: blocks are copied one after the other, from when they were given", "[unit]") {
  TieredStore store = store_of({1000}, {.prefixes = true});
  store.at(1000);
  store.keep_block(1);
  store.keep_block(2);
  store.at(1099);
  CHECK_FALSE(store.has_block(1));
  store.at(1100);
  CHECK(store.has_block(1));
  CHECK_FALSE(store.has_block(2));
  CHECK_FALSE(store.has_block(3));
  store.at(1200);
  CHECK(store.has_block(2));
  CHECK(store.counters().out_bytes == 200);
  CHECK(store.counters().copies == 4);
}

TEST_CASE("tiers: a block that is waited for stays, by as many as wait, and loads are counted by tier", "[unit]") {
  TieredStore store({{.capacity_bytes = 100, .bandwidth = 1e12}, {.capacity_bytes = 100, .bandwidth = 1e11}},
                    {.block_bytes = 100, .copies_per_run = 1, .prefixes = true});
  store.keep_block(1);
  store.keep_block(2);  // 1 moves on
  store.at(1'000'000);
  store.pin_block(1);
  store.pin_block(1);
  store.pin_block(2);
  store.keep_block(3);  // no room: both are waited for
  CHECK(store.counters().kept_blocks == 2);
  const std::vector<std::uint64_t> one{1}, both{1, 2}, none{3};
  CHECK(store.load_blocks(both, 16, true) == 1000 + 100);
  CHECK(store.counters().hit_tokens == std::vector<std::int64_t>{16, 16});
  store.keep_block(4);  // 2 goes on no longer: 1 is waited for once more, so 2 is given up
  CHECK(store.counters().kept_blocks == 3);
  CHECK(store.counters().dropped == 1);
  CHECK(store.has_block(1));
  CHECK_FALSE(store.has_block(2));
  CHECK(store.load_blocks(one, 16, false) == 1000);
  CHECK(store.counters().hit_tokens == std::vector<std::int64_t>{16, 16});  // of first admissions alone
  CHECK(store.counters().loaded_blocks == 3);
  CHECK(store.counters().in_bytes == 300);
  CHECK_THROWS_WITH(store.load_blocks(none, 16, true), "tiers: a block that is not here is loaded");
  store.keep_block(5);
  store.keep_block(6);
  store.at(2'000'000);
  CHECK_FALSE(store.has_block(1));  // nobody waits any longer
}

}  // namespace test_tier_turns
