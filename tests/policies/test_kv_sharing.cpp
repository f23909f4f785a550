// What the two caches that find prefixes again have in common: admission, pins, branches, and what they refuse.
#include "tests/policies/kv_support.hpp"

namespace test_kv_sharing {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;

namespace {

/// A cache of so many blocks of 16 tokens, of a byte each.
std::unique_ptr<KvCache> cache_of(const std::string& name, std::int64_t blocks, std::int64_t bytes_per_token = 1) {
  return make_cache(name, name == "radix" ? R"({"page_tokens": 16})" : "{}", blocks * 16 * bytes_per_token,
                    bytes_per_token);
}
std::string called(const std::string& name) {
  return name == "radix" ? "radix cache: " : "block hash cache: ";
}

/// Admits a prompt and leaves it known, used by nobody.
void leave(KvCache& kv, const Text& text, std::int64_t tokens) {
  const Sequence seq = prompt(text, tokens);
  REQUIRE(kv.admit({9}, seq, tokens));
  kv.release({9}, seq, tokens, Leave::keep);
}

Sequence silent(std::int64_t tokens) {
  Sequence seq;
  seq.prompt_tokens = seq.prefill_tokens = tokens;
  return seq;
}

}  // namespace

TEST_CASE("prefix caches: what is read for others, by passes of so many readers", "[unit]") {
  const std::string name = GENERATE("block_hash", "radix");
  const std::int64_t readers = GENERATE(1, 2, 3, 64);
  CAPTURE(name, readers);
  const auto kv = cache_of(name, 100);
  REQUIRE(kv->read_once(readers));
  CHECK_FALSE(make_cache("paged", "{}", 1600)->read_once(4));
  // Four blocks of 16 tokens that all begin with, known from one that has gone, and a tail of its own each.
  leave(*kv, {{1, 64}}, 64);
  CHECK(kv->tokens_read_for_others() == 0);
  std::vector<Text> texts;
  std::vector<Sequence> all;
  for (std::uint64_t i = 0; i < 7; ++i) texts.push_back({{1, 64}, {100 + i, 20}});
  for (const Text& text : texts) all.push_back(prompt(text, 84));
  for (std::uint32_t i = 0; i < 7; ++i) {
    REQUIRE(kv->admit({i}, all[i], 84) == 64);
    // i + 1 holders are served by ceil((i + 1) / readers) passes: the others of 64 tokens each are spared.
    const std::int64_t holders = i + 1, passes = (holders + readers - 1) / readers;
    CHECK(kv->tokens_read_for_others() == 64 * (holders - passes));
    kv->computed({i}, all[i], 84);  // its tail is its own: nobody reads it for another
    CHECK(kv->tokens_read_for_others() == 64 * (holders - passes));
  }
  for (std::uint32_t i = 7; i-- > 0;) {
    kv->release({i}, all[i], 84, i % 2 == 0 ? Leave::keep : Leave::drop);
    const std::int64_t holders = i, passes = (holders + readers - 1) / readers;
    CHECK(kv->tokens_read_for_others() == 64 * (holders - passes));
  }
}

TEST_CASE("prefix caches: sizes in blocks and in bytes", "[unit]") {
  const std::string name = GENERATE("block_hash", "radix");
  CAPTURE(name);
  const auto kv = cache_of(name, 10, 4);
  CHECK(kv->total_blocks() == 10);
  CHECK(kv->block_bytes() == 64);
  CHECK(kv->growth_tokens() == 16);
  CHECK(kv->keeps_prefixes());
  CHECK(kv->free_blocks() == 10);
  CHECK(kv->blocks_for(16) == 1);
  CHECK(kv->blocks_for(17) == 2);
  CHECK(kv->used_bytes() == 0);
  REQUIRE(kv->admit({0}, silent(40), 40) == 0);
  CHECK(kv->used_bytes() == 3 * 64);
  CHECK(kv->capacity({0}, silent(40)) == 48);
  CHECK(kv->releasable_blocks({0}) == 3);
  CHECK(kv->held_blocks({7}) == 0);  // nobody
  CHECK(kv->releasable_blocks({7}) == 0);
  kv->release({7}, silent(1), 1, Leave::keep);
  CHECK(kv->free_blocks() == 7);
  // What holds no block makes an empty cache, as does a token that takes nothing.
  CHECK(make_cache(name, "{}", -5)->total_blocks() == 0);
  CHECK(make_cache(name, "{}", 100, 0)->total_blocks() == 0);
}

TEST_CASE("prefix caches: a sequence is admitted with room for as much as was found, and not beyond what is free",
          "[unit]") {
  const std::string name = GENERATE("block_hash", "radix");
  CAPTURE(name);
  const auto kv = cache_of(name, 5);
  const Text text{{1, 64}};
  leave(*kv, text, 48);  // three blocks known, two blank
  const Sequence seq = prompt(text, 64);
  CHECK(kv->match_prefix(seq) == 48);
  CHECK(kv->blocks_to_admit(seq, 64) == 4);  // three that are evictable no longer, and one
  CHECK(kv->blocks_to_admit(silent(64), 64) == 4);
  REQUIRE(kv->admit({0}, seq, 16) == 48);  // asked for less than is there
  CHECK(kv->held_blocks({0}) == 3);
  CHECK(kv->free_blocks() == 2);
  CHECK(kv->evictable_blocks() == 0);
  CHECK(kv->blocks_to_admit(seq, 64) == 1);  // the three are in use already
  REQUIRE(kv->admit({1}, seq, 80) == 48);    // two more: all there is
  CHECK(kv->free_blocks() == 0);
  CHECK_FALSE(kv->admit({2}, seq, 64));
  CHECK(kv->held_blocks({2}) == 0);
  CHECK(kv->releasable_blocks({1}) == 2);
  kv->release({1}, seq, 80, Leave::drop);
  CHECK(kv->free_blocks() == 2);
  CHECK(kv->evictable_blocks() == 0);
  kv->release({0}, seq, 48, Leave::drop);
  CHECK(kv->evictable_blocks() == 3);
}

TEST_CASE("prefix caches: what is pinned stays, and is let go where there is no room for the rest", "[unit]") {
  const std::string name = GENERATE("block_hash", "radix");
  CAPTURE(name);
  const auto kv = cache_of(name, 4);
  const Text text{{1, 64}};
  leave(*kv, text, 32);
  const Sequence seq = prompt(text, 64);
  kv->pin({0}, seq);
  CHECK(kv->held_blocks({0}) == 2);
  CHECK(kv->evictable_blocks() == 0);
  REQUIRE(kv->admit({1}, silent(16), 16) == 0);
  CHECK_FALSE(kv->admit({0}, seq, 64));  // two blocks are missing, one is free
  CHECK(kv->held_blocks({0}) == 0);
  CHECK(kv->evictable_blocks() == 2);
  CHECK(kv->free_blocks() == 1);
  kv->pin({0}, seq);
  REQUIRE(kv->admit({0}, seq, 48) == 32);
  CHECK(kv->held_blocks({0}) == 3);
  CHECK_THROWS_WITH(kv->pin({0}, seq), called(name) + "a sequence is admitted twice");
  CHECK_THROWS_WITH(kv->pin({1}, silent(16)), called(name) + "a sequence is admitted twice");
}

TEST_CASE("prefix caches: decodes take and settle blocks, of what is known too", "[unit]") {
  const std::string name = GENERATE("block_hash", "radix");
  CAPTURE(name);
  const auto kv = cache_of(name, 5);
  const Text text{{1, 32}};
  leave(*kv, text, 32);
  REQUIRE(kv->admit({0}, silent(16), 16));
  CHECK(kv->available_blocks() == 4);
  CHECK_THROWS_WITH(kv->take(5), called(name) + "more blocks taken than are free");
  kv->take(3);
  CHECK(kv->available_blocks() == 1);
  CHECK(kv->counters().evicted_blocks == (name == "radix" ? 2 : 1));  // a leaf goes whole
  kv->settle({0}, silent(16), 33);
  CHECK(kv->held_blocks({0}) == 3);
  CHECK(kv->capacity({0}, silent(16)) == 48);
  kv->settle({0}, silent(16), 49);
  CHECK_THROWS_WITH(kv->settle({0}, silent(16), 65), called(name) + "a sequence settles blocks nobody took");
}

TEST_CASE("prefix caches: reserving evicts what is known and refuses what is not to be had", "[unit]") {
  const std::string name = GENERATE("block_hash", "radix");
  CAPTURE(name);
  const auto kv = cache_of(name, 4);
  const Text text{{1, 32}};
  leave(*kv, text, 32);
  REQUIRE(kv->reserve({0}, silent(16), 48));
  CHECK(kv->held_blocks({0}) == 3);
  REQUIRE(kv->reserve({0}, silent(16), 10));  // fewer than it has
  CHECK(kv->held_blocks({0}) == 3);
  CHECK_FALSE(kv->reserve({0}, silent(16), 65));
  CHECK(kv->held_blocks({0}) == 3);
  REQUIRE(kv->reserve({0}, silent(16), 64));
  CHECK(kv->available_blocks() == 0);
  CHECK(kv->match_text(text) == 0);
}

TEST_CASE("prefix caches: branches share what their prompt fills, and no more is known of them", "[unit]") {
  const std::string name = GENERATE("block_hash", "radix");
  CAPTURE(name);
  const auto kv = cache_of(name, 20);
  const Text text{{1, 40}, {2, 40}};  // the prompt and an output
  Sequence seq = prompt(text, 40);
  seq.branches = 3;
  // Two full blocks of prompt once, and the rest three times.
  CHECK(kv->blocks_of(seq, 40) == 2 + 3);
  CHECK(kv->blocks_of(seq, 49) == 2 + 3 * 2);
  REQUIRE(kv->admit({0}, seq, 40) == 0);
  CHECK(kv->free_blocks() == 15);
  CHECK(kv->capacity({0}, seq) == 48);
  kv->computed({0}, seq, 40);
  REQUIRE(kv->reserve({0}, seq, 80));
  kv->release({0}, seq, 80, Leave::keep);
  CHECK(kv->match_text(text) == 32);  // of 40 tokens that all branches share
  CHECK(kv->evictable_blocks() == 2);
  // Preempted, it prefills its output again: no more than the prompt may be found.
  const Text whole{{1, 40}, {2, 40}};
  leave(*kv, whole, 80);
  CHECK(kv->match_text(whole) == 80);
  seq.prefill_tokens = 80;
  CHECK(kv->match_prefix(seq) == 32);
  seq.branches = 1;
  CHECK(kv->match_prefix(seq) == 64);  // but for the last token
}

TEST_CASE("prefix caches: nothing is found of nothing", "[unit]") {
  const std::string name = GENERATE("block_hash", "radix");
  CAPTURE(name);
  const auto kv = cache_of(name, 4);
  const Text text{{1, 16}}, empty, other{{2, 16}}, longer{{1, 15}, {3, 1}};
  CHECK(kv->match_text(text) == 0);
  leave(*kv, text, 16);
  CHECK(kv->match_text(text) == 16);
  CHECK(kv->match_text(empty) == 0);
  CHECK(kv->match_text(other) == 0);
  CHECK(kv->match_text(longer) == 0);        // the page ends otherwise
  CHECK(kv->match_prefix(silent(40)) == 0);  // says nothing
  CHECK(kv->match_prefix(prompt(text, 0)) == 0);
  CHECK(kv->match_prefix(prompt(text, 16)) == 0);  // the last token is computed
  CHECK(kv->match_prefix(prompt(text, 17)) == 16);
  const Text halves{{1, 8}};
  CHECK(kv->match_text(halves) == 0);
}

TEST_CASE("prefix caches: more cannot be computed than is held", "[unit]") {
  const Text text{{1, 64}};
  const auto hash = cache_of("block_hash", 8);
  REQUIRE(hash->admit({0}, prompt(text, 64), 16));
  CHECK_THROWS_WITH(hash->computed({0}, prompt(text, 64), 32), "block hash cache: more blocks computed than held");
  const auto radix = cache_of("radix", 8);
  REQUIRE(radix->admit({0}, prompt(text, 64), 16));
  CHECK_THROWS_WITH(radix->computed({0}, prompt(text, 64), 32), "radix cache: more pages computed than held");
}

TEST_CASE("a preempted sequence's blocks stay known where they are hashed, and not in a tree", "[unit]") {
  CHECK(cache_of("block_hash", 1)->left_by_preempted() == Leave::keep);
  CHECK(cache_of("radix", 1)->left_by_preempted() == Leave::drop);
  CHECK(cache_of("paged", 1)->left_by_preempted() == Leave::drop);
  CHECK_FALSE(cache_of("paged", 1)->keeps_prefixes());
  CHECK(cache_of("paged", 1)->evictable_blocks() == 0);
}

TEST_CASE("a node that is cut keeps its users, its place in the order of use and what follows it", "[unit]") {
  const auto kv = make_cache("radix", "{}", 100);
  const Text whole{{1, 30}, {2, 30}}, head{{1, 30}, {2, 10}, {3, 5}};
  leave(*kv, whole, 60);  // one node of 60
  CHECK(kv->evictable_blocks() == 60);
  const Sequence seq = prompt(head, 45);
  REQUIRE(kv->admit({0}, seq, 45) == 40);  // cuts it inside the second span
  CHECK(kv->match_text(whole) == 60);      // the tail still follows
  CHECK(kv->evictable_blocks() == 20);
  CHECK(kv->releasable_blocks({0}) == 45);
  REQUIRE(kv->admit({1}, prompt(whole, 60), 60) == 59);
  CHECK(kv->evictable_blocks() == 1);  // the last token, which it computes itself
  CHECK(kv->releasable_blocks({0}) == 5);
  CHECK(kv->releasable_blocks({1}) == 19 + 1);
  kv->release({1}, prompt(whole, 60), 60, Leave::drop);
  CHECK(kv->releasable_blocks({0}) == 45);
  // The tail was used last, yet the head may not go before it. 100 - 45 - 20 are blank: eleven more evict the one
  // token, the leaf, and then the rest of the tail.
  REQUIRE(kv->admit({2}, silent(36), 36));
  CHECK(kv->match_text(whole) == 59);
  kv->release({2}, silent(36), 0, Leave::drop);
  REQUIRE(kv->admit({2}, silent(37), 37));
  CHECK(kv->match_text(whole) == 40);
  CHECK(kv->counters().evicted_blocks == 20);
  kv->release({0}, seq, 45, Leave::drop);
  CHECK(kv->evictable_blocks() == 40);
}

TEST_CASE("texts that differ within a page stay apart, and the later one with its sequence", "[unit]") {
  const auto kv = make_cache("radix", R"({"page_tokens": 4})", 100);
  const Text one{{1, 2}, {2, 6}}, other{{1, 2}, {3, 6}};
  const Sequence a = prompt(one, 8), b = prompt(other, 8);
  REQUIRE(kv->admit({0}, a, 8) == 0);
  REQUIRE(kv->admit({1}, b, 8) == 0);
  kv->computed({0}, a, 8);
  kv->computed({1}, b, 8);  // begins alike, so that it hangs on the same key
  CHECK(kv->match_text(one) == 8);
  CHECK(kv->match_text(other) == 0);
  CHECK(kv->held_blocks({1}) == 2);
  CHECK(kv->releasable_blocks({1}) == 2);
  kv->release({1}, b, 8, Leave::keep);
  CHECK(kv->free_blocks() == 25 - 2);
  kv->release({0}, a, 8, Leave::keep);
  CHECK(kv->evictable_blocks() == 2);
  // Behind a page that they share the same: the shared page is entered once, the rest stays with its sequence.
  const auto deep = make_cache("radix", R"({"page_tokens": 4})", 100);
  const Text first{{1, 6}, {2, 6}}, second{{1, 6}, {3, 6}};
  const Sequence c = prompt(first, 12), d = prompt(second, 12);
  REQUIRE(deep->admit({0}, c, 12) == 0);
  REQUIRE(deep->admit({1}, d, 12) == 0);
  deep->computed({0}, c, 12);
  CHECK(deep->free_blocks() == 25 - 6);
  deep->computed({1}, d, 12);
  CHECK(deep->free_blocks() == 25 - 5);  // the page that both computed is given back
  CHECK(deep->match_text(second) == 4);
  CHECK(deep->held_blocks({1}) == 3);
  CHECK(deep->releasable_blocks({1}) == 2);
}

}  // namespace test_kv_sharing
