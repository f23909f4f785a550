#include "tests/policies/kv_support.hpp"

namespace test_paged {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;

namespace {

const Sequence kOne{};  // a sequence with one branch

}  // namespace

TEST_CASE("blocks are counted up, whole, and given back", "[unit]") {
  const auto kv = paged_cache(10);
  CHECK(kv->total_blocks() == 10);
  CHECK(kv->blocks_for(1) == 1);
  CHECK(kv->blocks_for(16) == 1);
  CHECK(kv->blocks_for(17) == 2);
  REQUIRE(kv->reserve({3}, kOne, 33));  // 3 blocks
  CHECK(kv->free_blocks() == 7);
  CHECK(kv->capacity({3}, kOne) == 48);
  CHECK(kv->used_bytes() == 48);
  CHECK(kv->allocated_tokens() == 48);
  CHECK(kv->total_tokens() == 160);
  REQUIRE(kv->reserve({3}, kOne, 48));  // fits what it has
  CHECK(kv->free_blocks() == 7);
  REQUIRE(kv->reserve({3}, kOne, 49));
  CHECK(kv->held_blocks({3}) == 4);
  kv->release({3}, kOne, 49, Leave::keep);
  CHECK(kv->free_blocks() == 10);
  kv->release({3}, kOne, 0, Leave::keep);  // nothing left to give back
  kv->release({99}, kOne, 0, Leave::drop);
  CHECK(kv->free_blocks() == 10);
}

TEST_CASE("a reservation that does not fit changes nothing", "[unit]") {
  const auto kv = paged_cache(4);
  REQUIRE(kv->reserve({0}, kOne, 32));
  CHECK_FALSE(kv->reserve({1}, kOne, 48));
  CHECK(kv->free_blocks() == 2);
  CHECK(kv->held_blocks({1}) == 0);
}

TEST_CASE("bytes that hold no block make an empty cache", "[unit]") {
  const auto blocks = [](std::int64_t bytes) { return make_cache("paged", "{}", bytes, 10)->total_blocks(); };
  CHECK(blocks(159) == 0);  // a block is 160 bytes
  CHECK(blocks(160) == 1);
  CHECK(blocks(-5) == 0);
}

TEST_CASE("blocks taken together are settled one by one", "[unit]") {
  const auto kv = paged_cache(10);
  REQUIRE(kv->reserve({0}, kOne, 16));
  REQUIRE(kv->reserve({1}, kOne, 16));
  kv->take(3);
  CHECK(kv->free_blocks() == 5);
  kv->settle({0}, kOne, 33);  // 3 blocks: two more
  CHECK(kv->held_blocks({0}) == 3);
  kv->settle({1}, kOne, 17);
  CHECK(kv->held_blocks({1}) == 2);
  CHECK_THROWS_AS(kv->settle({1}, kOne, 33), std::logic_error);  // nobody took that one
  CHECK_THROWS_AS(kv->take(6), std::logic_error);
}

TEST_CASE("branches share full blocks of the prompt and copy the last", "[unit]") {
  // 40 tokens: two full blocks, shared by 4 branches, and 8 tokens of which each has its copy: 2 + 4 = 6. At 49 tokens
  // each takes one more: 10. Unshared: 4 x 3 and 4 x 4.
  Sequence four;
  four.prompt_tokens = 40;
  four.branches = 4;
  const auto shared = paged_cache(100);
  CHECK(shared->blocks_of(four, 40) == 6);
  CHECK(shared->blocks_of(four, 48) == 6);
  CHECK(shared->blocks_of(four, 49) == 10);
  CHECK(shared->blocks_of(four, 20) == 2);  // part of the prompt
  REQUIRE(shared->reserve({0}, four, 40));
  CHECK(shared->capacity({0}, four) == 48);
  const auto plain = make_cache("paged", R"({"sharing": "none"})", 1600, 1);
  CHECK(plain->blocks_of(four, 40) == 12);
  CHECK(plain->blocks_of(four, 49) == 16);
  // What ended counts its steps: tokens 41 to 48 at 6 of 12 blocks, 49 at 10 of 16.
  REQUIRE(shared->reserve({0}, four, 49));
  shared->release({0}, four, 49, Leave::keep);
  CHECK(shared->counters().shared_steps == 8 * 6 + 10);
  CHECK(shared->counters().unshared_steps == 8 * 12 + 16);
  // What is preempted comes again, and counts when it ends.
  REQUIRE(shared->reserve({0}, four, 49));
  shared->release({0}, four, 49, Leave::drop);
  CHECK(shared->counters().shared_steps == 8 * 6 + 10);
}

TEST_CASE("beams share history as far back as their ancestors are one", "[unit]") {
  // Width 2, every second branch replaced at a step: 2 ancestors, then 2 - 0.5 x 2 x 1 / 1 = 1. So a block whose
  // youngest token is a step old is common to both. Prompt 16: 1 block. 32 tokens: the second block ends in the
  // newest token: 2 copies. 33 tokens: the second is one step old: 1 + 1 + 2.
  Sequence two;
  two.prompt_tokens = 16;
  two.branches = 2;
  const auto beam = make_cache("paged", R"({"sharing": "beam"})", 1600, 1);
  CHECK(beam->blocks_of(two, 16) == 1);
  CHECK(beam->blocks_of(two, 32) == 3);
  CHECK(beam->blocks_of(two, 33) == 4);
  CHECK(beam->growth_tokens() == 0);
  // Branches that nobody replaces never meet again: no sharing but the prompt's.
  const auto still = make_cache("paged", R"({"sharing": "beam", "fork_rate": 0})", 1600, 1);
  CHECK(still->blocks_of(two, 80) == 1 + 2 * 4);
  // A wider beam shares more of its history than of nothing, and never takes more than unshared.
  Sequence six = two;
  six.branches = 6;
  for (std::int64_t tokens = 16; tokens < 600; tokens += 7) {
    CHECK(beam->blocks_of(six, tokens) <= 6 * beam->blocks_for(tokens));
    CHECK(beam->blocks_of(six, tokens) >= beam->blocks_for(tokens));
  }
}

TEST_CASE("blocks are conserved whatever happens", "[prop]") {
  sim::RandomStream random(1, "paged");
  const auto kv = paged_cache(200);
  std::vector<std::int64_t> held(40);
  for (int step = 0; step < 20'000; ++step) {
    const SeqId id{static_cast<std::uint32_t>(random.below(held.size()))};
    if (random.below(3) == 0) {
      kv->release(id, kOne, 0, Leave::drop);
      held[id.index] = 0;
    } else {
      const auto tokens = static_cast<std::int64_t>(random.below(300));
      if (kv->reserve(id, kOne, tokens)) held[id.index] = std::max(held[id.index], (tokens + 15) / 16);
    }
    std::int64_t sum = 0;
    for (const std::int64_t blocks : held) sum += blocks;
    REQUIRE(kv->free_blocks() == 200 - sum);
  }
}

TEST_CASE("a beam's copies are its mean of ancestors, to the nearest whole number", "[unit]") {
  // Width 3, half of the branches replaced: 3, then 3 - 0.5 x 3 x 2 / 2 = 1.5, rounded to 2, then
  // 1.5 - 0.5 x 1.5 x 0.5 / 2 = 1.3125: one. Of 16 tokens of prompt a block is common.
  Sequence three;
  three.prompt_tokens = 16;
  three.branches = 3;
  const auto beam = make_cache("paged", R"({"sharing": "beam"})", 1600, 1);
  CHECK(beam->blocks_of(three, 17) == 1 + 3);
  CHECK(beam->blocks_of(three, 32) == 1 + 3);      // the block ends in the newest token
  CHECK(beam->blocks_of(three, 33) == 1 + 2 + 3);  // that block is a step old
  CHECK(beam->blocks_of(three, 34) == 1 + 1 + 3);  // two steps: all stem from one
  CHECK(beam->blocks_of(three, 48) == 1 + 1 + 3);
  CHECK(beam->blocks_of(three, 10) == 1);
  // What dies is given back.
  REQUIRE(beam->reserve({0}, three, 33));
  CHECK(beam->free_blocks() == 94);
  REQUIRE(beam->reserve({0}, three, 34));
  CHECK(beam->held_blocks({0}) == 5);
  CHECK(beam->free_blocks() == 95);
  CHECK(beam->capacity({0}, three) == 0);  // asks at every step
  beam->release({0}, three, 34, Leave::keep);
  CHECK(beam->free_blocks() == 100);
  // Tokens 17 to 32 at 4 of 6 blocks, 33 at 6 and 34 at 5 of 9.
  CHECK(beam->counters().shared_steps == 16 * 4 + 6 + 5);
  CHECK(beam->counters().unshared_steps == 16 * 6 + 2 * 9);
  // All of them replaced: 3 - 1 x 3 x 2 / 2 = 0, no fewer than one.
  const auto all = make_cache("paged", R"({"sharing": "beam", "fork_rate": 1})", 1600, 1);
  CHECK(all->blocks_of(three, 33) == 1 + 1 + 3);
  Sequence one = three;
  one.branches = 1;
  CHECK(beam->blocks_of(one, 33) == 3);
}

TEST_CASE("what a sequence may grow to without asking follows from what its branches share", "[unit]") {
  Sequence two;
  two.prompt_tokens = 16;
  two.branches = 2;
  const auto none = make_cache("paged", R"({"sharing": "none", "split": true})", 1600, 1);
  REQUIRE(none->reserve({0}, two, 17));
  CHECK(none->held_blocks({0}) == 4);
  CHECK(none->capacity({0}, two) == 32);
  CHECK(none->growth_tokens() == 16);
  CHECK(none->reports_split());
  const auto prompts = make_cache("paged", "{}", 1600, 1);
  REQUIRE(prompts->reserve({0}, two, 17));
  CHECK(prompts->held_blocks({0}) == 3);
  CHECK(prompts->capacity({0}, two) == 32);
  CHECK_FALSE(prompts->reports_split());
  CHECK(prompts->releasable_blocks({0}) == 3);
  CHECK(prompts->pieces({0}) == 3);
  // One branch that was released for good counts no steps.
  REQUIRE(prompts->reserve({1}, kOne, 17));
  prompts->release({1}, kOne, 17, Leave::keep);
  CHECK(prompts->counters().shared_steps == 0);
  CHECK(make_cache("paged", "{}", 1600, 0)->total_blocks() == 0);  // a token that takes nothing
  CHECK_THROWS_WITH(prompts->take(98), "paged cache: more blocks taken than are free");
  prompts->take(97);
  CHECK_THROWS_WITH(prompts->settle({0}, kOne, 16 * 101), "paged cache: a sequence settles blocks nobody took");
}

}  // namespace test_paged
