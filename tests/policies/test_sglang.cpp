#include <algorithm>
#include <deque>

#include "sim/base/mix.hpp"
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

TEST_CASE("sglang: new requests are looked for at every k-th step of decodes", "[unit]") {
  TextReplica replica(10'000);
  const auto policy = make_batching("sglang", R"({"recv_interval": 10})");
  replica.clock = 100;
  CHECK(replica.decide(*policy).admit.empty());  // nothing runs: the looks are counted from here
  replica.decode(50);
  replica.clock = 103;
  replica.say({{1, 160}});
  const BatchDecision blind = replica.decide(*policy);
  CHECK(blind.admit.empty());
  CHECK(blind.stable_iterations == 7);  // to step 110
  replica.clock = 109;
  CHECK(replica.decide(*policy).stable_iterations == 1);
  replica.clock = 110;
  CHECK(replica.decide(*policy).admit.size() == 1);
  // A request that comes later waits for the next one; with an interval of 1 it does not wait.
  replica.clock = 112;
  CHECK(replica.decide(*policy).admit.empty());
  CHECK(replica.decide(*make_batching("sglang")).admit.size() == 1);
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

namespace {

/// Whom a decision admits, by number.
std::vector<std::uint32_t> line_of(const BatchDecision& decision) {
  std::vector<std::uint32_t> line;
  for (const SeqId id : admitted(decision)) line.push_back(id.index);
  return line;
}
using Line = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("sglang: who found no room is not asked again before a sequence has left", "[unit]") {
  TextReplica replica(200);
  const auto policy = make_batching("sglang", R"({"order": "fcfs", "watermark": 0})");
  const SeqId a = replica.decode(50), b = replica.decode(20);
  const SeqId large = replica.say({{1, 131}});  // 130 are free
  CHECK(replica.decide(*policy).admit.empty());
  // It would fit now, but nobody has left.
  replica.sequences[large.index].prefill_tokens = 100;
  CHECK(replica.decide(*policy).admit.empty());
  replica.end(b);
  CHECK(line_of(replica.decide(*policy)) == Line{large.index});
  // The same where all have left at once, and where somebody had to go.
  replica.sequences[large.index].prefill_tokens = 190;
  CHECK(replica.decide(*policy).admit.empty());
  replica.sequences[large.index].prefill_tokens = 10;
  CHECK(replica.decide(*policy).admit.empty());
  replica.end(a);
  CHECK(line_of(replica.decide(*policy)) == Line{large.index});
}

TEST_CASE("sglang: whoever was admitted counts among those of whom one may leave", "[unit]") {
  TextReplica replica(200);
  const auto policy = make_batching("sglang", R"({"order": "fcfs", "watermark": 0})");
  replica.say({{1, 60}});
  const SeqId large = replica.say({{2, 141}});
  CHECK(line_of(replica.decide(*policy)) == Line{0});
  // One runs, as was to be expected: nobody has left, whatever has become of the room.
  replica.waiting.pop_front();
  replica.decode(30);
  replica.sequences[large.index].prefill_tokens = 20;
  CHECK(replica.decide(*policy).admit.empty());
  replica.running.clear();
  replica.elsewhere = 1;  // in another lane it is one still
  CHECK(replica.decide(*policy).admit.empty());
  replica.elsewhere = 0;
  CHECK(line_of(replica.decide(*policy)) == Line{large.index});
}

TEST_CASE("sglang: after somebody had to go those who found no room are asked again", "[unit]") {
  TextReplica replica(100);
  const auto policy = make_batching("sglang", R"({"order": "fcfs", "watermark": 0})");
  replica.decode(50);
  const SeqId later = replica.decode(48);
  replica.say({{1, 20}});
  CHECK(replica.decide(*policy).admit.empty());  // two free pages: just enough to grow
  for (const SeqId id : {SeqId{0}, later}) {
    Sequence& seq = replica.sequences[id.index];
    ++seq.kv_then;
    REQUIRE(replica.kv->reserve(id, seq, seq.kv_then));
  }
  CHECK(preempted(replica.decide(*policy)) == std::vector<SeqId>{later});
  replica.stop(later);
  CHECK(line_of(replica.decide(*policy)) == Line{later.index});  // 49 pages are free, and it needs as many
}

TEST_CASE("sglang: one that never fits does not keep others back where nobody runs", "[unit]") {
  TextReplica replica(100);
  replica.say({{1, 101}});
  replica.say({{2, 60}});
  replica.say({{3, 41}});
  replica.say({{4, 40}});
  // The first never will; 60 do, then 41 do not, and nobody after is asked.
  CHECK(line_of(replica.decide(*make_batching("sglang", R"({"order": "fcfs", "watermark": 0})"))) == Line{1});
}

TEST_CASE("sglang: budget and slots of a batch of prompts, to the last token", "[unit]") {
  TextReplica replica(10'000);
  replica.say({{1, 60}});
  replica.say({{2, 40}});
  replica.say({{3, 10}});
  const auto given = [&](const std::string& params) { return items(replica.decide(*make_batching("sglang", params))); };
  CHECK(given(R"({"max_prefill_tokens": 100})") == Items{{0, 60}, {1, 40}});
  CHECK(given(R"({"max_prefill_tokens": 101})") == Items{{0, 60}, {1, 40}, {2, 1}});
  CHECK(given(R"({"max_prefill_tokens": 99})") == Items{{0, 60}, {1, 39}});
  CHECK(given(R"({"max_sequences": 2})") == Items{{0, 60}, {1, 40}});
  replica.elsewhere = 1;
  CHECK(given(R"({"max_sequences": 2})") == Items{{0, 60}});
  CHECK(given(R"({"max_sequences": 1})") == Items{});
}

TEST_CASE("sglang: unfinished prompts share the budget by admission", "[unit]") {
  TextReplica replica(10'000);
  replica.prefill(100, 40);
  replica.prefill(100, 80);
  replica.prefill(100, 10);
  replica.say({{1, 50}});
  const auto given = [&](const std::string& tokens) {
    return items(replica.decide(*make_batching("sglang", R"({"max_prefill_tokens": )" + tokens + "}")));
  };
  CHECK(given("80") == Items{{0, 60}, {1, 20}});
  CHECK(given("81") == Items{{0, 60}, {1, 20}, {2, 1}});
  CHECK(given("175") == Items{{0, 60}, {1, 20}, {2, 90}, {3, 5}});
  CHECK(given("170") == Items{{0, 60}, {1, 20}, {2, 90}});
}

TEST_CASE("sglang mixed: decodes have their pages before prompts, and a prompt that goes has no chunk", "[unit]") {
  // 100 pages; 50 are held and one is grown into: 49 for a prompt.
  for (const std::int64_t prompt : {49, 50}) {
    TextReplica replica(100);
    replica.decode(50);
    replica.say({{1, prompt}});
    const BatchDecision decision = replica.decide(*make_batching("sglang", R"({"mixed": true, "watermark": 0})"));
    CHECK(decision.admit.size() == (prompt == 49 ? 1 : 0));
    CHECK(decision.decode_rest);
  }
  // Not mixed, the decodes wait for the prompt, and need nothing.
  TextReplica apart(100);
  apart.decode(50);
  apart.say({{1, 50}});
  CHECK(apart.decide(*make_batching("sglang", R"({"watermark": 0})")).admit.size() == 1);
  // Two prompts and two decodes in 100 pages, all held: the last prompt goes, the first has its chunk.
  TextReplica lacks(100);
  const SeqId first = lacks.prefill(30, 10);
  lacks.decode(20);
  lacks.decode(20);
  const SeqId last = lacks.prefill(30, 10);
  lacks.say({{1, 1}});
  const BatchDecision decision = lacks.decide(*make_batching("sglang", R"({"mixed": true})"));
  CHECK(preempted(decision) == std::vector<SeqId>{last});
  CHECK(items(decision) == Items{{first.index, 20}});
  CHECK(decision.admit.empty());
  CHECK(decision.decode_rest);
}

TEST_CASE("sglang: what is being computed holds others back by what it has more than the cache", "[unit]") {
  // 100 shared tokens, `cached` of which the cache has.
  const auto count = [](std::int64_t cached, const std::string& params) {
    TextReplica replica(10'000);
    replica.cache({{5, cached}});
    replica.say({{5, 100}, {6, 40}});
    replica.say({{5, 100}, {7, 40}});
    return replica.decide(*make_batching("sglang", params)).admit.size();
  };
  CHECK(count(68, "{}") == 1);  // 32 more
  CHECK(count(69, "{}") == 2);
  CHECK(count(69, R"({"hold_shared": 31})") == 1);
  CHECK(count(100, R"({"hold_shared": 1})") == 2);
}

TEST_CASE("sglang: a prompt waits for the one under way that computes most of it", "[unit]") {
  const auto admitted_beside = [](const std::vector<Text>& under_way, const Text& text) {
    TextReplica replica(10'000);
    for (const Text& one : under_way) {
      const SeqId id = replica.say(one);
      Sequence& seq = replica.sequences[id.index];
      REQUIRE(replica.kv->admit(id, seq, seq.prefill_tokens));
      seq.phase = Phase::prefill;
      replica.running.push_back(id);
      replica.prefilling.push_back(id);
    }
    replica.waiting.clear();
    replica.say(text);
    return replica.decide(*make_batching("sglang")).admit.size() == 1;
  };
  const Text text{{5, 10}, {6, 40}};
  CHECK(admitted_beside({{{5, 10}, {7, 40}}}, text));
  CHECK_FALSE(admitted_beside({{{5, 10}, {6, 22}}}, text));
  CHECK(admitted_beside({{{5, 10}, {6, 21}}}, text));
  CHECK_FALSE(admitted_beside({{{5, 10}, {7, 40}}, {{5, 10}, {6, 30}}}, text));
  CHECK_FALSE(admitted_beside({{{5, 10}, {6, 30}}, {{5, 10}, {7, 40}}}, text));
  // The last token is computed in any case: 32 alike are 31 to wait for.
  CHECK(admitted_beside({{{5, 32}}}, {{5, 32}}));
  CHECK_FALSE(admitted_beside({{{5, 33}}}, {{5, 33}}));
}

TEST_CASE("sglang: prompts that say nothing wait for nobody, and stand first in the tree", "[unit]") {
  TextReplica replica(10'000);
  replica.say({{5, 100}});
  const SeqId mute = replica.wait(100);
  const SeqId empty = replica.say({});
  replica.sequences[empty.index].prefill_tokens = 7;
  replica.say({{5, 99}});
  replica.say({{4, 100}});
  // Without a text, with an empty one, then by spans: 4; 5 of 99; 5 of 100, who waits for it.
  CHECK(line_of(replica.decide(*make_batching("sglang", R"({"order": "dfs"})"))) ==
        Line{mute.index, empty.index, 4, 3});
  CHECK(line_of(replica.decide(*make_batching("sglang", R"({"order": "dfs", "hold_shared": 0})"))) ==
        Line{mute.index, empty.index, 4, 3, 0});
  CHECK(line_of(replica.decide(*make_batching("sglang", R"({"order": "fcfs"})"))) == Line{0, 1, 2, 4});
}

TEST_CASE("sglang: equal texts stand by arrival, and a shuffle is one of arrival numbers", "[unit]") {
  TextReplica replica(10'000);
  for (int i = 0; i < 4; ++i) replica.say({{5, 20}});
  CHECK(line_of(replica.decide(*make_batching("sglang", R"({"order": "dfs"})"))) == Line{0, 1, 2, 3});
  CHECK(line_of(replica.decide(*make_batching("sglang", R"({"order": "lpm"})"))) == Line{0, 1, 2, 3});
  TextReplica shuffled(10'000);
  for (std::uint64_t i = 0; i < 9; ++i) shuffled.say({{i, 20}});
  Line line{0, 1, 2, 3, 4, 5, 6, 7, 8};
  std::sort(line.begin(), line.end(), [](std::uint32_t a, std::uint32_t b) { return sim::mix64(a) < sim::mix64(b); });
  CHECK(line_of(shuffled.decide(*make_batching("sglang", R"({"order": "random"})"))) == line);
}

TEST_CASE("sglang: an answer holds until decodes may evict, or for ever if no slot is free", "[unit]") {
  TextReplica replica(100);
  replica.decode(20);
  replica.say({{1, 90}});
  // 80 pages are free, of which one a step goes: 64 steps are sure.
  CHECK(replica.decide(*make_batching("sglang")).stable_iterations == 64);
  CHECK(replica.decide(*make_batching("sglang", R"({"max_sequences": 1})")).stable_iterations == kStable);
  CHECK(replica.decide(*make_batching("sglang", R"({"max_sequences": 2})")).stable_iterations == 64);
  TextReplica lacks(100);
  lacks.decode(50);
  lacks.decode(50);
  CHECK(lacks.decide(*make_batching("sglang")).stable_iterations == 1);
  CHECK(lacks.decide(*make_batching("sglang", R"({"mixed": true})")).stable_iterations == 1);
}

TEST_CASE("sglang: only what is being computed now holds others back", "[unit]") {
  TextReplica replica(10'000);
  const auto policy = make_batching("sglang");
  replica.say({{5, 100}, {6, 40}});
  REQUIRE(line_of(replica.decide(*policy)) == Line{0});
  replica.waiting.clear();  // it left before it computed anything
  replica.say({{5, 100}, {7, 40}});
  CHECK(line_of(replica.decide(*policy)) == Line{1});
}

TEST_CASE("sglang: while somebody runs, who finds no room holds up those behind it", "[unit]") {
  TextReplica replica(100);
  replica.decode(50);
  replica.say({{1, 51}});
  replica.say({{2, 5}});
  CHECK(replica.decide(*make_batching("sglang", R"({"order": "fcfs", "watermark": 0})")).admit.empty());
}

}  // namespace test_sglang
