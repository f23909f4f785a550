#include <list>
#include <map>

#include "policies/kvcache/tiered_store.hpp"
#include "tests/policies/kv_support.hpp"

namespace test_block_hash {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;

namespace {

/// Every block by itself: contents spelled out, one queue in a list.
class SlowCache {
 public:
  SlowCache(std::int64_t blocks, std::int64_t size) : size_(static_cast<std::size_t>(size)) {
    for (std::int64_t i = 0; i < blocks; ++i) queue_.push_back(i);
  }
  using Tokens = std::vector<std::pair<std::uint64_t, std::int64_t>>;

  std::size_t match(const Tokens& text, std::size_t most) const {
    std::size_t blocks = 0;
    while ((blocks + 1) * size_ <= std::min(most, text.size()) && known_.contains(head(text, blocks + 1))) ++blocks;
    return blocks;
  }
  std::optional<std::size_t> admit(std::vector<std::int64_t>& held, const Tokens& text, std::size_t tokens) {
    const std::size_t found = match(text, tokens - 1);
    std::size_t queued = 0;
    for (std::size_t b = 0; b < found; ++b) queued += holders_[known_.at(head(text, b + 1))] == 0 ? 1U : 0U;
    const std::size_t all = (tokens + size_ - 1) / size_;
    if (all - found + queued > queue_.size()) return std::nullopt;
    for (std::size_t b = 0; b < found; ++b) {
      const std::int64_t block = known_.at(head(text, b + 1));
      if (holders_[block]++ == 0) queue_.remove(block);
      held.push_back(block);
    }
    while (held.size() < all) held.push_back(pop());
    return found * size_;
  }
  /// From block `b` on, which is looked at once: a duplicate stays unknown.
  void computed(const std::vector<std::int64_t>& held, const Tokens& text, std::size_t& b, std::size_t tokens) {
    for (; (b + 1) * size_ <= std::min(tokens, text.size()); ++b) {
      const Tokens content = head(text, b + 1);
      if (known_.contains(content)) continue;
      known_[content] = held[b];
      content_[held[b]] = content;
    }
  }
  bool grow(std::vector<std::int64_t>& held, std::size_t tokens) {
    const std::size_t all = (tokens + size_ - 1) / size_;
    if (all > held.size() && all - held.size() > queue_.size()) return false;
    while (held.size() < all) held.push_back(pop());
    return true;
  }
  void release(std::vector<std::int64_t>& held) {
    // Blank ones first, as the cache says; then the last ones first.
    std::stable_partition(held.begin(), held.end(), [&](std::int64_t block) { return content_.contains(block); });
    for (; !held.empty(); held.pop_back())
      if (--holders_[held.back()] == 0) queue_.push_back(held.back());
  }
  std::int64_t blank() const {
    return std::count_if(queue_.begin(), queue_.end(), [&](std::int64_t block) { return !content_.contains(block); });
  }
  std::int64_t known() const { return std::ssize(queue_) - blank(); }

 private:
  Tokens head(const Tokens& text, std::size_t blocks) const {
    return {text.begin(), text.begin() + static_cast<std::ptrdiff_t>(blocks * size_)};
  }
  std::int64_t pop() {
    const std::int64_t block = queue_.front();
    queue_.pop_front();
    if (const auto at = content_.find(block); at != content_.end()) {
      known_.erase(at->second);
      content_.erase(at);
    }
    ++holders_[block];
    return block;
  }

  std::size_t size_;
  std::list<std::int64_t> queue_;
  std::map<std::int64_t, std::int64_t> holders_;
  std::map<Tokens, std::int64_t> known_;
  std::map<std::int64_t, Tokens> content_;
};

}  // namespace

TEST_CASE("what was computed is found again, whole blocks of it", "[unit]") {
  const auto kv = make_cache("block_hash", "{}", 160);  // 10 blocks
  const Text first{{1, 40}, {2, 30}};
  const Text second{{1, 40}, {3, 30}};
  const Sequence a = prompt(first, 70);
  const Sequence b = prompt(second, 70);
  REQUIRE(kv->admit({0}, a, 70) == 0);  // 5 blocks
  CHECK(kv->match_prefix(b) == 0);      // nothing is computed yet
  kv->computed({0}, a, 20);
  CHECK(kv->match_prefix(b) == 16);
  kv->computed({0}, a, 70);
  CHECK(kv->match_prefix(b) == 32);  // the third block holds 8 tokens of the second span
  CHECK(kv->match_text(first) == 64);
  CHECK(kv->blocks_to_admit(b, 70) == 3);
  REQUIRE(kv->admit({1}, b, 70) == 32);
  CHECK(kv->free_blocks() == 2);
  CHECK(kv->held_blocks({1}) == 5);
  CHECK(kv->releasable_blocks({0}) == 3);  // two are shared
  kv->release({0}, a, 70, Leave::keep);
  CHECK(kv->evictable_blocks() == 2);  // its third and fourth; the fifth was never full
  CHECK(kv->free_blocks() == 3);
  kv->release({1}, b, 70, Leave::drop);
  CHECK(kv->used_bytes() == 0);
  CHECK(kv->available_blocks() == 10);
}

TEST_CASE("the last token is always computed", "[unit]") {
  const auto kv = make_cache("block_hash", "{}", 160);
  const Text text{{1, 32}};
  const Sequence seq = prompt(text, 32);
  REQUIRE(kv->admit({0}, seq, 32) == 0);
  kv->computed({0}, seq, 32);
  CHECK(kv->match_prefix(seq) == 16);
}

TEST_CASE("who was freed first is pushed out first, tails before heads", "[unit]") {
  const auto kv = make_cache("block_hash", "{}", 4 * 16);
  const Text one{{1, 32}}, two{{2, 32}};
  Sequence seq = prompt(one, 32);
  REQUIRE(kv->admit({0}, seq, 32));
  kv->release({0}, seq, 32, Leave::keep);
  seq = prompt(two, 32);
  REQUIRE(kv->admit({0}, seq, 32));
  kv->release({0}, seq, 32, Leave::keep);
  CHECK(kv->evictable_blocks() == 4);
  Sequence other;  // says nothing that is known
  other.prefill_tokens = 16;
  REQUIRE(kv->admit({0}, other, 16));
  CHECK(kv->match_text(one) == 16);
  CHECK(kv->match_text(two) == 32);
  CHECK(kv->counters().evicted_blocks == 1);
}

TEST_CASE("what one decision admits cannot push out what another one of it counts on", "[unit]") {
  const auto kv = make_cache("block_hash", "{}", 6 * 16);
  const Text text{{1, 48}};
  Sequence known = prompt(text, 48);
  REQUIRE(kv->admit({0}, known, 48));
  kv->release({0}, known, 48, Leave::keep);  // blank: 3, known: 3
  Sequence other;
  other.prefill_tokens = 64;  // 4 blocks: one of the known would go
  CHECK(kv->blocks_to_admit(known, 48) == 3);
  kv->pin({0}, other);
  kv->pin({1}, known);
  REQUIRE(kv->admit({0}, other, 64));  // the 3 blank ones and the third known
  CHECK(kv->match_text(text) == 32);
}

TEST_CASE("blocks that a tier has are loaded once, by whom they were found for", "[unit]") {
  TieredStore tier({{.capacity_bytes = 1000, .bandwidth = 1e12}}, {.block_bytes = 16, .prefixes = true});
  const auto kv = make_cache("block_hash", "{}", 4 * 16);
  REQUIRE(kv->hand_on_to(tier));
  const Text text{{1, 48}}, others{{2, 64}};
  const Sequence seq = prompt(text, 48), other = prompt(others, 64);
  REQUIRE(kv->admit({0}, seq, 48) == 0);
  kv->release({0}, seq, 48, Leave::keep);
  REQUIRE(kv->admit({0}, other, 64) == 0);  // takes all four: the three known ones go to the tier
  kv->release({0}, other, 64, Leave::drop);
  tier.at(1'000'000);  // the copies, 48 bytes at a byte a ps, are through
  // Of 48 tokens the last is always computed, so 32 may be found: both blocks of them below.
  CHECK(kv->match_text(text) == 0);
  CHECK(kv->match_prefix(seq) == 32);
  REQUIRE(kv->admit({1}, seq, 48) == 32);
  CHECK(kv->to_load({1}).size() == 2);
  kv->computed({1}, seq, 32);
  CHECK(kv->to_load({1}).empty());
  kv->release({1}, seq, 32, Leave::drop);
  // Whoever has the number next finds nothing of it: with text as without.
  REQUIRE(kv->admit({1}, seq, 48) == 32);
  kv->release({1}, seq, 0, Leave::drop);  // before it loaded anything
  CHECK(kv->to_load({1}).empty());
  Sequence silent;
  silent.prefill_tokens = 16;
  CHECK(kv->admit({1}, silent, 16) == 0);
  CHECK(kv->held_blocks({1}) == 1);
}

TEST_CASE("a block hash cache agrees with one that spells every block out", "[prop]") {
  sim::RandomStream random(7, "block_hash");
  for (int round = 0; round < 20; ++round) {
    const auto size = static_cast<std::int64_t>(1 + random.below(8));
    const auto blocks = static_cast<std::int64_t>(10 + random.below(60));
    const auto kv = make_cache("block_hash", "{\"block_tokens\": " + std::to_string(size) + "}", blocks * size);
    SlowCache slow(blocks, size);
    struct Live {
      bool here = false;
      Text text;
      Sequence seq;
      std::int64_t computed = 0, tokens = 0;
      std::vector<std::int64_t> held;
      std::size_t shown = 0;  // blocks
    };
    std::vector<Live> live(12);
    for (int step = 0; step < 1500; ++step) {
      const auto index = static_cast<std::uint32_t>(random.below(live.size()));
      Live& one = live[index];
      if (!one.here) {
        one.text = random_text(random);
        std::int64_t tokens = 0;
        for (const TextSpan& span : one.text) tokens += span.tokens;
        one.seq = prompt(one.text, std::max<std::int64_t>(1, tokens - static_cast<std::int64_t>(random.below(9))));
        const auto expected =
            slow.admit(one.held, tokens_of(one.text), static_cast<std::size_t>(one.seq.prefill_tokens));
        const auto found = kv->admit({index}, one.seq, one.seq.prefill_tokens);
        REQUIRE(found.has_value() == expected.has_value());
        if (!found) continue;
        REQUIRE(*found == static_cast<std::int64_t>(*expected));
        one.here = true;
        one.shown = *expected / static_cast<std::size_t>(size);
        one.computed = *found;
        one.tokens = one.seq.prefill_tokens;
      } else if (const auto what = random.below(4); what == 0) {
        one.computed += static_cast<std::int64_t>(
            random.below(static_cast<std::uint64_t>(one.seq.prefill_tokens - one.computed + 1)));
        kv->computed({index}, one.seq, one.computed);
        slow.computed(one.held, tokens_of(one.text), one.shown, static_cast<std::size_t>(one.computed));
      } else if (what == 1) {
        const std::int64_t more = one.tokens + static_cast<std::int64_t>(random.below(20));
        const bool grown = slow.grow(one.held, static_cast<std::size_t>(more));
        if (random.below(2) == 0) {
          REQUIRE(kv->reserve({index}, one.seq, more) == grown);
        } else if (grown) {
          kv->take(kv->blocks_to_grow({index}, one.seq, more));
          kv->settle({index}, one.seq, more);
        }
        if (grown) one.tokens = more;
      } else if (what == 2) {
        const bool keep = one.computed == one.seq.prefill_tokens;
        kv->release({index}, one.seq, one.tokens, keep ? Leave::keep : Leave::drop);
        if (keep) slow.computed(one.held, tokens_of(one.text), one.shown, static_cast<std::size_t>(one.tokens));
        slow.release(one.held);
        one.here = false;
      }
      REQUIRE(kv->free_blocks() == slow.blank());
      REQUIRE(kv->evictable_blocks() == slow.known());
      for (std::uint32_t i = 0; i < live.size(); ++i)
        REQUIRE(kv->held_blocks({i}) == (live[i].here ? std::ssize(live[i].held) : 0));
    }
    for (std::uint32_t i = 0; i < live.size(); ++i)
      if (live[i].here) kv->release({i}, live[i].seq, 0, Leave::drop);
    CHECK(kv->available_blocks() == blocks);
    CHECK(kv->used_bytes() == 0);
  }
}

}  // namespace test_block_hash
