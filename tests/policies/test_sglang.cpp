#include <algorithm>
#include <deque>

#include "tests/policies/kv_support.hpp"

namespace test_sglang {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;

namespace {

/// A replica on paper over a tree of `pages` pages of a token, whose prompts say something.
struct TextReplica : PaperReplica {
  explicit TextReplica(std::int64_t pages) : PaperReplica(1) { kv = make_cache("radix", "{}", pages); }
  SeqId say(const Text& text) {
    texts.push_back(text);
    std::int64_t tokens = 0;
    for (const TextSpan& span : text) tokens += span.tokens;
    const SeqId id = wait(tokens);
    sequences[id.index].text = &texts.back();
    return id;
  }
  /// Somebody said this before, and left it in the cache.
  void cache(const Text& text) {
    const SeqId id = say(text);
    waiting.pop_back();
    Sequence& seq = sequences[id.index];
    REQUIRE(kv->admit(id, seq, seq.prefill_tokens));
    kv->release(id, seq, seq.prefill_tokens, Leave::keep);
  }
  std::deque<Text> texts;
};

}  // namespace

TEST_CASE("sglang: the four orders of admission", "[unit]") {
  const auto order = [](const std::string& name) {
    TextReplica replica(10'000);
    replica.cache({{5, 60}, {6, 10}});  // sequence 0
    replica.say({{9, 50}});
    replica.say({{5, 20}, {7, 50}});  // 20 tokens are there
    replica.say({{5, 60}, {8, 10}});  // 60
    replica.say({{1, 50}});
    const auto policy = make_batching("sglang", "{\"order\": \"" + name + "\"}");
    std::vector<std::uint32_t> line;
    const BatchDecision decision = replica.decide(*policy);
    for (const SeqId id : admitted(decision)) line.push_back(id.index);
    return line;
  };
  CHECK(order("lpm") == std::vector<std::uint32_t>{3, 2, 1, 4});  // 60, 20, then by arrival
  CHECK(order("fcfs") == std::vector<std::uint32_t>{1, 2, 3, 4});
  CHECK(order("dfs") == std::vector<std::uint32_t>{4, 2, 3, 1});  // spans 1; 5 of 20 tokens; 5 of 60; 9
  std::vector<std::uint32_t> shuffled = order("random");
  CHECK(shuffled == order("random"));
  std::sort(shuffled.begin(), shuffled.end());
  CHECK(shuffled == std::vector<std::uint32_t>{1, 2, 3, 4});
}

TEST_CASE("sglang: the cached head of a prompt is not computed again", "[unit]") {
  TextReplica replica(10'000);
  replica.cache({{5, 60}});
  replica.say({{5, 60}, {6, 40}});
  const BatchDecision decision = replica.decide(*make_batching("sglang"));
  CHECK(items(decision) == Items{{1, 40}});
  CHECK(decision.admit[0].reserve_tokens == 100);
}

TEST_CASE("sglang: who shares what is being computed waits for it", "[unit]") {
  const auto admissions = [](std::int64_t shared, const std::string& params, bool radix = true) {
    TextReplica replica(10'000);
    if (!radix) replica.kv = paged_cache(1000);
    replica.say({{5, shared}, {6, 40}});
    replica.say({{5, shared}, {7, 40}});
    return replica.decide(*make_batching("sglang", params)).admit.size();
  };
  CHECK(admissions(100, "{}") == 1);
  CHECK(admissions(32, "{}") == 1);
  CHECK(admissions(31, "{}") == 2);  // fewer than hold_shared
  CHECK(admissions(100, R"({"hold_shared": 0})") == 2);
  CHECK(admissions(100, "{}", false) == 2);  // nothing is kept: nothing to wait for
}

TEST_CASE("sglang: prompts in chunks, and decodes beside them only if mixed", "[unit]") {
  for (const bool mixed : {false, true}) {
    TextReplica replica(10'000);
    replica.decode(50);
    replica.say({{1, 160}});
    const auto policy =
        make_batching("sglang", std::string(R"({"max_prefill_tokens": 100, "mixed": )") + (mixed ? "true}" : "false}"));
    const BatchDecision decision = replica.decide(*policy);
    CHECK(items(decision) == Items{{1, 100}});
    CHECK(decision.admit[0].reserve_tokens == 160);
    CHECK(decision.decode_rest == mixed);
    CHECK(decision.stable_iterations <= 1);
  }
  // What is under way goes first.
  TextReplica replica(10'000);
  replica.prefill(160, 100);
  replica.say({{1, 160}});
  CHECK(items(replica.decide(*make_batching("sglang", R"({"max_prefill_tokens": 100})"))) == Items{{0, 60}, {1, 40}});
}

TEST_CASE("sglang: slots, and pages above the watermark, limit admission", "[unit]") {
  TextReplica replica(200);  // a tenth is 20
  replica.decode(50);        // holds 50
  replica.say({{1, 130}});   // 200 - 50 - 130 = 20: just so
  CHECK(replica.decide(*make_batching("sglang", R"({"watermark": 0.1})")).admit.size() == 1);
  CHECK(replica.decide(*make_batching("sglang", R"({"watermark": 0.11})")).admit.empty());
  CHECK(replica.decide(*make_batching("sglang", R"({"max_sequences": 1})")).admit.empty());
}

TEST_CASE("sglang: decodes alone are stable, and the latest goes where pages lack", "[unit]") {
  TextReplica replica(100);
  replica.decode(50);
  const SeqId later = replica.decode(49);
  const auto policy = make_batching("sglang");
  CHECK(replica.decide(*policy).preempt.empty() == false);  // one page free, two tokens to come
  CHECK(preempted(replica.decide(*policy)) == std::vector<SeqId>{later});
  TextReplica roomy(102);
  roomy.decode(50);
  roomy.decode(49);
  const BatchDecision decision = roomy.decide(*policy);
  CHECK(decision.preempt.empty());
  CHECK(decision.stable_iterations == kStable);
}

TEST_CASE("sglang: one by one, depth first and longest first compute every edge once", "[prop]") {
  // Theorem 3.1 of the paper: a pool that holds the longest request is enough. Every prompt ends with a token of its
  // own, for the last token is computed in any case. Distinct tokens: of the sorted texts, those that are not in the
  // text before.
  sim::RandomStream random(5, "sglang");
  for (int round = 0; round < 40; ++round) {
    std::vector<Text> texts;
    for (std::uint64_t i = 0; i < 30; ++i) {
      Text text;
      std::uint64_t node = 1;
      for (auto depth = random.below(4); depth > 0; --depth) {
        node = node * 3 + random.below(3);
        text.push_back({node, static_cast<std::int64_t>(1 + node % 23)});
      }
      text.push_back({1'000'000 + i, static_cast<std::int64_t>(1 + random.below(9))});
      texts.push_back(text);
    }
    std::vector<Text> sorted = texts;
    std::sort(sorted.begin(), sorted.end(), [](const Text& a, const Text& b) {
      return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                          [](const TextSpan& x, const TextSpan& y) { return x.id < y.id; });
    });
    std::int64_t edges = 0, longest = 0;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      std::int64_t tokens = 0;
      for (const TextSpan& span : sorted[i]) tokens += span.tokens;
      longest = std::max(longest, tokens);
      edges += tokens - (i == 0 ? 0 : common_tokens(sorted[i - 1], sorted[i]));
    }
    const auto computed = [&](const std::string& order) {
      TextReplica replica(longest);
      for (const Text& text : texts) replica.say(text);
      const auto policy = make_batching("sglang", R"({"max_sequences": 1, "watermark": 0, "order": ")" + order + "\"}");
      std::int64_t tokens = 0;
      while (!replica.waiting.empty()) {
        const BatchDecision decision = replica.decide(*policy);
        REQUIRE(decision.admit.size() == 1);
        const SeqId id = decision.admit[0].seq;
        const Sequence& seq = replica.sequences[id.index];
        const auto there = replica.kv->admit(id, seq, decision.admit[0].reserve_tokens);
        REQUIRE(there);
        CHECK(decision.items[0].new_tokens == seq.prefill_tokens - *there);
        tokens += seq.prefill_tokens - *there;
        replica.kv->computed(id, seq, seq.prefill_tokens);
        replica.kv->release(id, seq, seq.prefill_tokens, Leave::keep);
        std::erase(replica.waiting, id);
      }
      return tokens;
    };
    CHECK(computed("dfs") == edges);
    CHECK(computed("lpm") == edges);
    CHECK(computed("random") >= edges);
  }
}

}  // namespace test_sglang
