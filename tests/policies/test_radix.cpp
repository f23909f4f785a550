#include <set>

#include "tests/policies/kv_support.hpp"

namespace test_radix {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;

TEST_CASE("prefixes of any length are found", "[unit]") {
  const auto kv = make_cache("radix", "{}", 200);  // 200 tokens
  const Text first{{1, 40}, {2, 30}};
  const Text second{{1, 40}, {3, 30}};
  const Text shorter{{1, 25}, {4, 5}};
  const Sequence a = prompt(first, 70);
  REQUIRE(kv->admit({0}, a, 70) == 0);
  CHECK(kv->match_text(second) == 0);
  kv->computed({0}, a, 50);
  CHECK(kv->match_text(first) == 50);
  CHECK(kv->match_text(second) == 40);
  CHECK(kv->match_text(shorter) == 25);
  kv->computed({0}, a, 70);
  CHECK(kv->match_prefix(a) == 69);  // the last token is always computed
  const Sequence b = prompt(second, 70);
  CHECK(kv->blocks_to_admit(b, 70) == 30);
  REQUIRE(kv->admit({1}, b, 70) == 40);
  CHECK(kv->free_blocks() == 200 - 70 - 30);
  CHECK(kv->held_blocks({1}) == 70);
  CHECK(kv->releasable_blocks({1}) == 30);
  CHECK(kv->releasable_blocks({0}) == 30);
  kv->release({0}, a, 70, Leave::keep);
  CHECK(kv->evictable_blocks() == 30);
  kv->release({1}, b, 70, Leave::keep);
  CHECK(kv->evictable_blocks() == 100);
  CHECK(kv->free_blocks() == 100);
  CHECK(kv->used_bytes() == 0);
}

TEST_CASE("leaves go first, the least recently used of them", "[unit]") {
  const auto kv = make_cache("radix", "{}", 100);
  const Text one{{1, 20}, {2, 20}}, two{{1, 20}, {3, 20}};
  for (const Text* text : {&one, &two}) {
    const Sequence seq = prompt(*text, 40);
    REQUIRE(kv->admit({0}, seq, 40));
    kv->release({0}, seq, 40, Leave::keep);
  }
  CHECK(kv->free_blocks() == 40);
  CHECK(kv->evictable_blocks() == 60);
  Sequence other;
  other.prefill_tokens = 45;
  REQUIRE(kv->admit({0}, other, 45));
  CHECK(kv->match_text(one) == 20);  // its own end is gone, whole
  CHECK(kv->match_text(two) == 40);
  CHECK(kv->counters().evicted_blocks == 20);
  CHECK(kv->free_blocks() == 15);
}

TEST_CASE("a prefix that was used again outlives one that was made after it", "[unit]") {
  const auto kv = make_cache("radix", "{}", 100);
  const Text one{{1, 20}, {2, 20}}, two{{1, 20}, {3, 20}};
  for (const Text* text : {&one, &two, &one}) {
    const Sequence seq = prompt(*text, 40);
    REQUIRE(kv->admit({0}, seq, 40));
    kv->release({0}, seq, 40, Leave::keep);
  }
  Sequence other;
  other.prefill_tokens = 45;
  REQUIRE(kv->admit({0}, other, 45));  // 40 are free: a leaf of 20 goes
  CHECK(kv->match_text(one) == 40);
  CHECK(kv->match_text(two) == 20);
}

TEST_CASE("what two compute at once is kept once", "[unit]") {
  const auto kv = make_cache("radix", "{}", 100);
  const Text text{{1, 30}};
  const Sequence seq = prompt(text, 30);
  REQUIRE(kv->admit({0}, seq, 30) == 0);
  REQUIRE(kv->admit({1}, seq, 30) == 0);
  CHECK(kv->free_blocks() == 40);
  kv->computed({0}, seq, 30);
  kv->computed({1}, seq, 30);
  CHECK(kv->free_blocks() == 70);
  kv->release({0}, seq, 30, Leave::drop);
  kv->release({1}, seq, 30, Leave::drop);
  CHECK(kv->evictable_blocks() == 30);
  CHECK(kv->free_blocks() == 70);
}

TEST_CASE("published at the end, a prompt is found by nobody before", "[unit]") {
  const auto kv = make_cache("radix", R"({"publish": "end"})", 100);
  const Text text{{1, 30}, {2, 10}};  // the last ten are its output
  const Sequence seq = prompt(text, 30);
  REQUIRE(kv->admit({0}, seq, 30));
  kv->computed({0}, seq, 30);
  CHECK(kv->match_text(text) == 0);
  kv->take(9);
  kv->settle({0}, seq, 39);
  kv->release({0}, seq, 39, Leave::keep);
  CHECK(kv->match_text(text) == 39);
}

TEST_CASE("pages are conserved whatever happens, and the tree tells the truth", "[prop]") {
  sim::RandomStream random(11, "radix");
  for (int round = 0; round < 30; ++round) {
    const auto page = static_cast<std::int64_t>(1 + random.below(4));
    const auto pages = static_cast<std::int64_t>(20 + random.below(120));
    const auto kv = make_cache("radix", "{\"page_tokens\": " + std::to_string(page) + "}", pages * page);
    struct Live {
      bool here = false;
      Text text;
      Sequence seq;
      std::int64_t computed = 0, tokens = 0;
    };
    std::vector<Live> live(12);
    std::vector<std::vector<std::pair<std::uint64_t, std::int64_t>>> entered;  // texts, as far as they were
    for (int step = 0; step < 1500; ++step) {
      const auto index = static_cast<std::uint32_t>(random.below(live.size()));
      Live& one = live[index];
      if (!one.here) {
        one.text = random_text(random);
        std::int64_t tokens = 0;
        for (const TextSpan& span : one.text) tokens += span.tokens;
        one.seq = prompt(one.text, std::max<std::int64_t>(1, tokens - static_cast<std::int64_t>(random.below(9))));
        const std::int64_t cost = kv->blocks_to_admit(one.seq, one.seq.prefill_tokens);
        const std::int64_t available = kv->available_blocks();
        const std::int64_t matched = kv->match_prefix(one.seq);
        // What is found was entered, and if nothing was ever evicted, all of it is found (whole pages; within a page
        // texts that part stay apart).
        std::int64_t longest = 0;
        const auto mine = tokens_of(one.text);
        for (const auto& other : entered) {
          std::int64_t same = 0;
          while (same < std::min(std::ssize(mine), std::ssize(other)) &&
                 mine[static_cast<std::size_t>(same)] == other[static_cast<std::size_t>(same)])
            ++same;
          longest = std::max(longest, same);
        }
        longest = std::min(longest, one.seq.prefill_tokens - 1) / page * page;
        REQUIRE(matched <= longest);
        if (kv->counters().evicted_blocks == 0 && page == 1) REQUIRE(matched == longest);
        const auto found = kv->admit({index}, one.seq, one.seq.prefill_tokens);
        REQUIRE(found.has_value() == (cost <= available));
        if (!found) continue;
        REQUIRE(*found == matched);
        REQUIRE(kv->available_blocks() == available - cost);
        one.here = true;
        one.computed = *found;
        one.tokens = one.seq.prefill_tokens;
      } else if (const auto what = random.below(4); what == 0) {
        one.computed += static_cast<std::int64_t>(
            random.below(static_cast<std::uint64_t>(one.seq.prefill_tokens - one.computed + 1)));
        kv->computed({index}, one.seq, one.computed);
        auto tokens = tokens_of(one.text);
        tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(one.computed)));
        entered.push_back(tokens);
        if (page == 1) REQUIRE(kv->match_text(one.text) >= std::min(one.computed, std::ssize(tokens)));
      } else if (what == 1) {
        const std::int64_t more = one.tokens + static_cast<std::int64_t>(random.below(20));
        const std::int64_t need = kv->blocks_to_grow({index}, one.seq, more);
        if (need > kv->available_blocks()) {
          REQUIRE_FALSE(kv->reserve({index}, one.seq, more));
        } else if (random.below(2) == 0) {
          REQUIRE(kv->reserve({index}, one.seq, more));
          one.tokens = more;
        } else {
          kv->take(need);
          kv->settle({index}, one.seq, more);
          one.tokens = more;
        }
      } else if (what == 2) {
        const bool keep = one.computed == one.seq.prefill_tokens;
        kv->release({index}, one.seq, one.tokens, keep ? Leave::keep : Leave::drop);
        if (keep) {
          auto tokens = tokens_of(one.text);
          tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(one.tokens)));
          entered.push_back(tokens);
        }
        one.here = false;
      }
      // With pages of a token, what is in use is every computed token once and everything else once a sequence.
      if (page == 1) {
        std::set<std::vector<std::pair<std::uint64_t, std::int64_t>>> heads;
        std::int64_t plain = 0;
        for (const Live& each : live) {
          if (!each.here) continue;
          auto tokens = tokens_of(each.text);
          tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(each.computed)));
          plain += each.tokens - std::ssize(tokens);
          for (; !tokens.empty(); tokens.pop_back()) heads.insert(tokens);
        }
        REQUIRE(kv->used_bytes() == std::ssize(heads) + plain);
      }
      REQUIRE(kv->free_blocks() >= 0);
      REQUIRE(kv->available_blocks() <= pages);
    }
    for (std::uint32_t i = 0; i < live.size(); ++i)
      if (live[i].here) kv->release({i}, live[i].seq, 0, Leave::drop);
    CHECK(kv->available_blocks() == pages);
    Sequence all;  // everything can be had again
    REQUIRE(kv->reserve({0}, all, pages * page));
    CHECK(kv->free_blocks() == 0);
  }
}

}  // namespace test_radix
