#include <algorithm>
#include <deque>
#include <set>

#include "policies/batching/prefix_groups.hpp"
#include "tests/policies/kv_support.hpp"

namespace test_batchllm {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;

namespace {

std::int64_t length(const Text& text) {
  std::int64_t tokens = 0;
  for (const TextSpan& span : text) tokens += span.tokens;
  return tokens;
}

std::vector<PrefixGroup> groups_of(const std::vector<Text>& texts) {
  std::vector<SharedText> shared;
  for (const Text& text : texts) shared.push_back({&text, length(text)});
  return prefix_groups(shared);
}

std::int64_t saved(const std::vector<PrefixGroup>& groups) {
  std::int64_t tokens = 0;
  for (const PrefixGroup& group : groups) tokens += group.shared * (std::ssize(group.members) - 1);
  return tokens;
}

using Tokens = std::vector<std::pair<std::uint64_t, std::int64_t>>;

/// The most that subtrees which lie beside each other save, by trying every set of prefixes that two texts have in
/// common.
std::int64_t most_saved(const std::vector<Text>& texts) {
  std::vector<Tokens> all;
  for (const Text& text : texts) all.push_back(tokens_of(text));
  std::set<Tokens> prefixes;
  for (const Tokens& a : all)
    for (const Tokens& b : all) {
      if (&a == &b) continue;
      std::size_t n = 0;
      while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
      prefixes.insert(Tokens(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n)));
    }
  const std::vector<Tokens> nodes(prefixes.begin(), prefixes.end());
  const auto begins = [](const Tokens& text, const Tokens& with) {
    return with.size() <= text.size() && std::equal(with.begin(), with.end(), text.begin());
  };
  std::int64_t best = 0;
  for (std::uint32_t set = 0; set < (1U << nodes.size()); ++set) {
    std::int64_t sum = 0;
    bool beside = true;
    for (std::size_t i = 0; i < nodes.size() && beside; ++i) {
      if ((set >> i & 1U) == 0) continue;
      for (std::size_t j = 0; j < nodes.size(); ++j)
        if (j != i && (set >> j & 1U) != 0 && begins(nodes[j], nodes[i])) beside = false;
      const auto readers = std::count_if(all.begin(), all.end(), [&](const Tokens& t) { return begins(t, nodes[i]); });
      sum += static_cast<std::int64_t>(nodes[i].size()) * (readers - 1);
    }
    if (beside) best = std::max(best, sum);
  }
  return best;
}

struct TextReplica : PaperReplica {
  explicit TextReplica(std::int64_t pages) : PaperReplica(1) { kv = make_cache("radix", "{}", pages); }
  SeqId say(const Text& text, std::int64_t predicted = 0) {
    texts.push_back(text);
    const SeqId id = wait(length(text));
    sequences[id.index].text = &texts.back();
    sequences[id.index].predicted_tokens = predicted;
    return id;
  }
  /// Applies a decision on paper: all items are computed at once.
  void apply(const BatchDecision& decision) {
    for (const Admission& admission : decision.admit) {
      Sequence& seq = sequences[admission.seq.index];
      const auto there = kv->admit(admission.seq, seq, admission.reserve_tokens);
      REQUIRE(there);
      seq.prefilled = *there;
      seq.phase = Phase::prefill;
      std::erase(waiting, admission.seq);
      running.push_back(admission.seq);
      prefilling.push_back(admission.seq);
    }
    for (const Item& item : decision.items) {
      Sequence& seq = sequences[item.seq.index];
      REQUIRE(kv->reserve(item.seq, seq, seq.prefilled + item.new_tokens));
      seq.prefilled += item.new_tokens;
      seq.kv_then = seq.prefilled;
      kv->computed(item.seq, seq, seq.prefilled);
      if (seq.prefill_left() > 0) continue;
      seq.phase = Phase::decode;
      seq.generated_then = 1;
      std::erase(prefilling, item.seq);
      ++decoding;
    }
  }
  std::deque<Text> texts;
};

std::vector<std::uint32_t> indices(const std::vector<SeqId>& ids) {
  std::vector<std::uint32_t> all;
  for (const SeqId id : ids) all.push_back(id.index);
  return all;
}
using Line = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("prefix groups: one prefix each, where it saves most", "[unit]") {
  // Four share 10 tokens; two of them 30, two others 25. Apart 30 + 25 = 55 are saved, together 3 x 10 = 30.
  auto groups = groups_of({{{1, 10}, {2, 20}, {11, 5}},
                           {{1, 10}, {3, 15}, {12, 5}},
                           {{1, 10}, {2, 20}, {13, 5}},
                           {{1, 10}, {3, 15}, {14, 5}},
                           {{9, 7}}});
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].shared == 30);
  CHECK(groups[0].members == std::vector<std::size_t>{0, 2});
  CHECK(groups[1].shared == 25);
  CHECK(groups[1].members == std::vector<std::size_t>{1, 3});
  CHECK(groups[2].shared == 0);
  CHECK(groups[2].members == std::vector<std::size_t>{4});
  // With 50 tokens in common rather than 10: 3 x 50 = 150 over 70 + 65 = 135.
  groups = groups_of({{{1, 50}, {2, 20}, {11, 5}},
                      {{1, 50}, {3, 15}, {12, 5}},
                      {{1, 50}, {2, 20}, {13, 5}},
                      {{1, 50}, {3, 15}, {14, 5}}});
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].shared == 50);
  CHECK(groups[0].members.size() == 4);
}

TEST_CASE("prefix groups: texts that end early, are alike, say nothing, or are not there", "[unit]") {
  const Text shorter{{1, 20}}, longer{{1, 40}, {2, 5}}, none;
  std::vector<SharedText> texts{{&shorter, 19}, {nullptr, 100}, {&longer, 44}, {&none, 10}, {&longer, 44}};
  const auto groups = prefix_groups(texts);
  // The two alike share 44; with the short one all three share 19, which saves 38.
  REQUIRE(groups.size() == 4);
  CHECK(groups[2].shared == 44);
  CHECK(groups[2].members == std::vector<std::size_t>{2, 4});
  CHECK(saved(groups) == 44);
  CHECK(prefix_groups({}).empty());
}

TEST_CASE("prefix groups: as good as any set of subtrees, on small random trees", "[prop]") {
  sim::RandomStream random(3, "groups");
  std::int64_t some = 0;
  for (int round = 0; round < 600; ++round) {
    std::vector<Text> texts;
    for (auto n = 1 + random.below(8); n > 0; --n) texts.push_back(random_text(random));
    const auto groups = groups_of(texts);
    CHECK(saved(groups) == most_saved(texts));
    some += saved(groups) > 0 ? 1 : 0;
    std::vector<std::size_t> members;
    for (const PrefixGroup& group : groups) {
      for (const std::size_t a : group.members) {
        members.push_back(a);
        for (const std::size_t b : group.members) CHECK((a == b || common_tokens(texts[a], texts[b]) >= group.shared));
      }
    }
    std::sort(members.begin(), members.end());
    REQUIRE(members.size() == texts.size());
    for (std::size_t i = 0; i < members.size(); ++i) CHECK(members[i] == i);
  }
  CHECK(some > 100);
}

TEST_CASE("batchllm: group after group, the first member of each ahead", "[unit]") {
  TextReplica replica(10'000);
  const auto policy = make_batching("batchllm", R"({"order": "arrival"})");
  replica.say({{1, 100}, {11, 10}});  // 0
  replica.say({{2, 100}, {12, 10}});  // 1
  replica.say({{1, 100}, {13, 10}});  // 2
  replica.say({{2, 100}, {14, 10}});  // 3
  replica.say({{1, 100}, {15, 10}});  // 4
  replica.say({{3, 50}});             // 5, by itself
  BatchDecision decision = replica.decide(*policy);
  CHECK(indices(admitted(decision)) == Line{0, 1, 5});
  replica.apply(decision);
  decision = replica.decide(*policy);
  CHECK(items(decision) == Items{{2, 10}, {4, 10}, {3, 10}});  // only what is their own
  CHECK(decision.decode_rest);
  replica.apply(decision);
  replica.say({{1, 100}, {16, 10}});  // in the next plan
  CHECK(indices(admitted(replica.decide(*policy))) == Line{6});
}

TEST_CASE("batchllm: a group waits as long as its prefix is computed, chunk by chunk", "[unit]") {
  TextReplica replica(10'000);
  const auto policy = make_batching("batchllm", R"({"prefill_tokens": 60})");
  replica.say({{1, 100}, {11, 10}});
  replica.say({{1, 100}, {12, 10}});
  replica.say({{3, 30}});
  for (const Items& expected : {Items{{0, 60}}, Items{{0, 50}, {2, 10}}, Items{{2, 20}, {1, 10}}}) {
    const BatchDecision decision = replica.decide(*policy);
    CHECK(items(decision) == expected);
    replica.apply(decision);
  }
  CHECK(replica.waiting.empty());
}

TEST_CASE("batchllm: groups by decode tokens over tokens to compute", "[unit]") {
  const auto order = [](const std::string& params) {
    TextReplica replica(10'000);
    const auto policy = make_batching("batchllm", params);
    replica.say({{1, 100}, {11, 10}}, 20);  // 40 over 100 + 2 x 10
    replica.say({{2, 40}}, 60);             // 60 over 40
    replica.say({{1, 100}, {12, 10}}, 20);
    replica.say({{3, 50}}, 40);  // 40 over 50
    Line line;
    while (!replica.waiting.empty()) {
      const BatchDecision decision = replica.decide(*policy);
      for (const std::uint32_t i : indices(admitted(decision))) line.push_back(i);
      replica.apply(decision);
    }
    return line;
  };
  CHECK(order("{}") == Line{1, 3, 0, 2});
  CHECK(order(R"({"order": "reverse"})") == Line{0, 3, 1, 2});  // 2 waits for what 0 computes
  CHECK(order(R"({"order": "arrival"})") == Line{0, 1, 3, 2});
  // True lengths are 10 each: 20 over 120, 10 over 40, 10 over 50.
  CHECK(order(R"({"oracle": true})") == Line{1, 3, 0, 2});
}

TEST_CASE("batchllm: memory is the limit, as it is expected to be used", "[unit]") {
  const auto count = [](std::int64_t pages, std::int64_t predicted, const std::string& params = "{}") {
    TextReplica replica(pages);
    for (std::uint64_t i = 0; i < 3; ++i) replica.say({{10 + i, 50}}, predicted);
    return replica.decide(*make_batching("batchllm", params)).admit.size();
  };
  CHECK(count(150, 0) == 3);
  CHECK(count(149, 0) == 2);
  CHECK(count(150, 1) == 3);  // the first token comes with the prompt, and is never in the cache
  CHECK(count(153, 2) == 3);
  CHECK(count(152, 2) == 2);
  // 50 + 31 - 1 tokens each at the end.
  CHECK(count(240, 31) == 3);
  CHECK(count(239, 31) == 2);
  CHECK(count(300, 31, R"({"kv_limit": 0.8})") == 3);
  CHECK(count(300, 31, R"({"kv_limit": 0.79})") == 2);
  CHECK(count(60, 31) == 1);  // alone: one may always try
}

TEST_CASE("batchllm: what is too large does not stop the others", "[unit]") {
  TextReplica replica(100);
  replica.say({{1, 200}});
  replica.say({{2, 50}});
  const auto policy = make_batching("batchllm");
  CHECK(indices(admitted(replica.decide(*policy))) == Line{1});
  // By itself it leads to an empty decision, by which the replica refuses it.
  TextReplica alone(100);
  alone.say({{1, 200}});
  CHECK(alone.decide(*make_batching("batchllm")).admit.empty());
}

TEST_CASE("batchllm: who was preempted goes before the plan", "[unit]") {
  TextReplica replica(100);
  const auto policy = make_batching("batchllm", R"({"order": "arrival"})");
  replica.decode(50);
  const SeqId later = replica.decode(49);
  replica.say({{1, 1}});
  BatchDecision decision = replica.decide(*policy);
  CHECK(preempted(decision) == std::vector<SeqId>{later});
  CHECK(decision.admit.empty());
  Sequence& seq = replica.sequences[later.index];
  replica.kv->release(later, seq, seq.kv_then, Leave::drop);
  seq.phase = Phase::waiting;
  replica.running.pop_back();
  --replica.decoding;
  seq.prefilled = seq.kv_then = 0;
  replica.waiting.push_front(later);
  decision = replica.decide(*policy);
  CHECK(indices(admitted(decision)) == Line{1});  // 50 pages are free, one is for the decode: nobody else
}

TEST_CASE("batchllm: what alike prompts share ends before their last token", "[unit]") {
  // Of two prompts that say the same 33 tokens the second has 32 from the first, which is just hold_shared: it waits.
  // Of 32 tokens it would have 31, for which nobody waits. Three alike share no more than two.
  for (const std::int64_t tokens : {32, 33}) {
    TextReplica replica(1000);
    const auto policy = make_batching("batchllm", R"({"hold_shared": 32})");
    for (int i = 0; i < 3; ++i) replica.say({{1, tokens}});
    const BatchDecision decision = replica.decide(*policy);
    CHECK(indices(admitted(decision)) == (tokens == 33 ? Line{0} : Line{0, 1, 2}));
    replica.apply(decision);
    if (tokens == 33) CHECK(items(replica.decide(*policy)) == Items{{1, 1}, {2, 1}});  // the last token of each
  }
}

TEST_CASE("batchllm: a group prefills its prefix once", "[unit]") {
  // Two share 100 tokens: 2 x 110 - 100 = 120 to compute for 40 of output, a third. Beside them one with 3 of 10 and
  // one with 2 of 5. If the prefix counted for each, the two would have 40 / 220 and go last.
  TextReplica replica(10'000);
  const auto policy = make_batching("batchllm");
  replica.say({{1, 100}, {11, 10}}, 20);
  replica.say({{2, 100}}, 30);
  replica.say({{1, 100}, {12, 10}}, 20);
  replica.say({{3, 50}}, 20);
  CHECK(indices(admitted(replica.decide(*policy))) == Line{3, 0, 1});
  // Three: 330 - 200 = 130 for 42, still more than 30 of 100; with one prefix more it would be 42 of 230.
  TextReplica three(10'000);
  for (std::uint64_t i = 0; i < 3; ++i) three.say({{1, 100}, {11 + i, 10}}, 14);
  three.say({{2, 100}}, 30);
  CHECK(indices(admitted(three.decide(*make_batching("batchllm")))) == Line{0, 3});
}

TEST_CASE("batchllm: whoever was preempted and is gone does not come back as somebody else", "[unit]") {
  // As above, but the preempted one leaves, and its place in the list of sequences is another's, which came later.
  TextReplica replica(100);
  const auto policy = make_batching("batchllm", R"({"order": "arrival"})");
  replica.decode(50);
  const SeqId later = replica.decode(49);
  const SeqId first = replica.say({{1, 1}});
  CHECK(preempted(replica.decide(*policy)) == std::vector<SeqId>{later});
  Sequence& seq = replica.sequences[later.index];
  replica.kv->release(later, seq, seq.kv_then, Leave::drop);
  replica.running.pop_back();
  --replica.decoding;
  seq = {};
  seq.order = 3;
  seq.prompt_tokens = seq.prefill_tokens = 10;
  replica.waiting.push_back(later);
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{first, later});
}

TEST_CASE("batchllm: where a prefix was evicted since, one computes it again and the others wait", "[unit]") {
  // 90 share 40 of 41 tokens. The first computes them; then 82 join, a token each, which is the budget. All leave,
  // somebody large evicts the prefix, and leaves too. There is budget for two whole prompts, but one goes ahead.
  TextReplica replica(10'000);
  const auto policy = make_batching("batchllm", R"({"prefill_tokens": 82})");
  for (std::uint64_t i = 0; i < 90; ++i) replica.say({{1, 40}, {11 + i, 1}});
  BatchDecision decision = replica.decide(*policy);
  CHECK(items(decision) == Items{{0, 41}});
  replica.apply(decision);
  decision = replica.decide(*policy);
  CHECK(decision.admit.size() == 82);
  CHECK(decision.items.back().new_tokens == 1);
  replica.apply(decision);
  const auto leave = [&] {
    for (const SeqId id : replica.running)
      replica.kv->release(id, replica.sequences[id.index], replica.sequences[id.index].kv_then, Leave::drop);
    replica.running.clear();
    replica.decoding = 0;
  };
  leave();
  replica.decode(10'000);
  leave();
  CHECK(items(replica.decide(*policy)) == Items{{83, 41}});
}

TEST_CASE("prefix groups: of equal savings the smaller groups are taken, and groups come by their first member",
          "[unit]") {
  // Four share 10; two and two of them 15 each: 3 x 10 = 15 + 15.
  auto groups = groups_of(
      {{{1, 10}, {2, 5}, {11, 5}}, {{1, 10}, {3, 5}, {12, 5}}, {{1, 10}, {2, 5}, {13, 5}}, {{1, 10}, {3, 5}, {14, 5}}});
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].shared == 15);
  CHECK(groups[0].members == std::vector<std::size_t>{0, 2});
  CHECK(groups[1].members == std::vector<std::size_t>{1, 3});
  // With 11 in common it is 33 over 16 + 16.
  groups = groups_of(
      {{{1, 11}, {2, 5}, {11, 5}}, {{1, 11}, {3, 5}, {12, 5}}, {{1, 11}, {2, 5}, {13, 5}}, {{1, 11}, {3, 5}, {14, 5}}});
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].shared == 11);
}

TEST_CASE("prefix groups: texts with nothing in common stay by themselves, in their order", "[unit]") {
  const auto groups = groups_of({{{3, 10}}, {{2, 10}}, {{1, 10}}});
  REQUIRE(groups.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(groups[i].shared == 0);
    CHECK(groups[i].members == std::vector<std::size_t>{i});
  }
  // A chain of prefixes: 30 shared by two of three, 10 by all; 30 > 20.
  const auto chain = groups_of({{{1, 10}}, {{1, 30}}, {{1, 50}}});
  REQUIRE(chain.size() == 2);
  CHECK(chain[0].shared == 0);
  CHECK(chain[1].shared == 30);
  CHECK(chain[1].members == std::vector<std::size_t>{1, 2});
  // No more is shared than may be: 5 tokens of each.
  const Text text{{1, 40}};
  const auto cut = prefix_groups(std::vector<SharedText>{{&text, 5}, {&text, 7}, {&text, 0}});
  REQUIRE(cut.size() == 2);
  CHECK(cut[0].shared == 5);
  CHECK(cut[1].members == std::vector<std::size_t>{2});
}

TEST_CASE("batchllm: what runs is counted as what it will become", "[unit]") {
  // Prompts of 50 with 31 to come hold 80 at the end. One runs: two fill 160 pages, or half of 320.
  const auto count = [](std::int64_t pages, const std::string& params, std::int64_t predicted = 31,
                        std::int64_t generated = 1) {
    TextReplica replica(pages);
    const SeqId runs = replica.decode(50, generated);
    replica.sequences[runs.index].predicted_tokens = predicted;
    replica.say({{1, 50}}, 31);
    replica.say({{2, 50}}, 31);
    return replica.decide(*make_batching("batchllm", params)).admit.size();
  };
  CHECK(count(159, "{}") == 0);
  CHECK(count(160, "{}") == 1);
  CHECK(count(239, "{}") == 1);
  CHECK(count(240, "{}") == 2);
  CHECK(count(318, R"({"kv_limit": 0.5})") == 0);
  CHECK(count(320, R"({"kv_limit": 0.5})") == 1);
  // Without a prediction it counts what it holds, 50; past its prediction too, 59.
  CHECK(count(130, "{}", 0) == 1);
  CHECK(count(129, "{}", 0) == 0);
  CHECK(count(139, "{}", 5, 10) == 1);
  CHECK(count(138, "{}", 5, 10) == 0);
  // True lengths are 100 for who runs, 10 for the others: 149 + 59.
  CHECK(count(208, R"({"oracle": true})") == 1);
  CHECK(count(207, R"({"oracle": true})") == 0);
}

TEST_CASE("batchllm: who was preempted is to become what was predicted, or what it is by now", "[unit]") {
  // Half of 400 pages may be filled, 60 are held: 140. The last token of an output is never in the cache.
  struct Case {
    std::int64_t predicted, prefill;
    bool fits;
  };
  for (const Case& c : {Case{91, 70, true}, Case{92, 70, false}, Case{5, 141, true}, Case{5, 142, false},
                        Case{0, 140, true}, Case{0, 141, false}}) {
    CAPTURE(c.predicted, c.prefill);
    TextReplica replica(400);
    replica.decode(60);
    const SeqId back = replica.say({{1, 50}}, c.predicted);
    replica.sequences[back.index].prefill_tokens = c.prefill;
    CHECK(replica.decide(*make_batching("batchllm", R"({"kv_limit": 0.5})")).admit.empty() != c.fits);
  }
}

TEST_CASE("batchllm: prompts have their tokens beside all decodes", "[unit]") {
  TextReplica replica(10'000);
  replica.decode(50);
  replica.branch(replica.decode(50), 3);
  replica.say({{1, 50}});
  replica.say({{2, 50}});
  const auto given = [&](const std::string& tokens) {
    return items(replica.decide(*make_batching("batchllm", R"({"prefill_tokens": )" + tokens + "}")));
  };
  CHECK(given("100") == Items{{2, 50}, {3, 50}});
  CHECK(given("99") == Items{{2, 50}, {3, 49}});
  CHECK(given("50") == Items{{2, 50}});
}

TEST_CASE("batchllm: of several who had to go the first admitted comes back first, before the plan", "[unit]") {
  TextReplica replica(100);
  const auto policy = make_batching("batchllm", R"({"order": "arrival"})");
  const SeqId first = replica.decode(40), b = replica.decode(30), c = replica.decode(30);
  replica.say({{1, 3}});
  // Three pages lack; the last leaves 30.
  REQUIRE(preempted(replica.decide(*policy)) == std::vector<SeqId>{c});
  replica.stop(c);
  // A large one takes them, and the next goes too.
  REQUIRE(replica.kv->reserve(first, replica.sequences[first.index], 70));
  replica.sequences[first.index].kv_then = 70;
  REQUIRE(preempted(replica.decide(*policy)) == std::vector<SeqId>{b});
  replica.stop(b);
  replica.end(first);
  CHECK(indices(admitted(replica.decide(*policy))) == Line{b.index, c.index});
}

TEST_CASE("batchllm: who comes back and never fits any more does not hold up the others", "[unit]") {
  TextReplica replica(100);
  const auto policy = make_batching("batchllm", R"({"order": "arrival"})");
  replica.decode(50);
  const SeqId later = replica.decode(49);
  const SeqId fresh = replica.say({{1, 20}});
  REQUIRE(preempted(replica.decide(*policy)) == std::vector<SeqId>{later});
  replica.stop(later);
  replica.sequences[later.index].prefill_tokens = 101;
  CHECK(indices(admitted(replica.decide(*policy))) == Line{fresh.index});
}

TEST_CASE("batchllm: equal shares of decodes keep the order of arrival, either way round", "[unit]") {
  const auto order = [](const std::string& params) {
    TextReplica replica(10'000);
    replica.say({{1, 40}}, 20);
    replica.say({{2, 100}}, 50);
    replica.say({{3, 60}}, 31);
    replica.say({{4, 80}}, 40);
    return indices(admitted(replica.decide(*make_batching("batchllm", params))));
  };
  CHECK(order("{}") == Line{2, 0, 1, 3});
  CHECK(order(R"({"order": "reverse"})") == Line{0, 1, 3, 2});
}

TEST_CASE("batchllm: a plan stands until it is through, and who left is no part of it", "[unit]") {
  // Pages for one at a time: the plan is made for three; a fourth with more decodes comes later and has to wait.
  TextReplica replica(50);
  const auto policy = make_batching("batchllm");
  for (std::uint64_t i = 0; i < 3; ++i) replica.say({{1 + i, 40}}, 1);
  BatchDecision decision = replica.decide(*policy);
  REQUIRE(indices(admitted(decision)) == Line{0});
  replica.apply(decision);
  const SeqId late = replica.say({{9, 40}}, 11);
  replica.end({0});
  std::erase(replica.waiting, SeqId{1});  // it left with a failure
  replica.sequences[1].order = -1;
  decision = replica.decide(*policy);
  CHECK(indices(admitted(decision)) == Line{2});
  replica.apply(decision);
  replica.end({2});
  CHECK(indices(admitted(replica.decide(*policy))) == Line{late.index});
}

TEST_CASE("batchllm: an answer holds where nobody comes or goes, and a full cache admits nobody", "[unit]") {
  TextReplica replica(100);
  replica.decode(50);
  CHECK(replica.decide(*make_batching("batchllm")).stable_iterations == kStable);
  replica.say({{1, 60}});
  const BatchDecision waits = replica.decide(*make_batching("batchllm"));
  CHECK(waits.admit.empty());
  CHECK(waits.stable_iterations == 32);  // 50 pages of which one a step goes
  CHECK(waits.decode_rest);
}

TEST_CASE("batchllm: in a cache that keeps nothing prompts that begin alike are no group", "[unit]") {
  TextReplica replica(1);
  replica.kv = paged_cache(1000);
  for (std::uint64_t i = 0; i < 3; ++i) replica.say({{1, 100}, {11 + i, 10}});
  CHECK(indices(admitted(replica.decide(*make_batching("batchllm")))) == Line{0, 1, 2});
}

TEST_CASE("batchllm: who finds no blocks now holds up those behind it", "[unit]") {
  // 140 pages, 60 held and one to grow into: 79 are free. The first may become 79, but has 80 to prefill now.
  TextReplica replica(140);
  replica.decode(60);
  const SeqId back = replica.say({{1, 50}}, 5);
  replica.sequences[back.index].prefill_tokens = 80;
  replica.say({{2, 10}});
  const auto policy = make_batching("batchllm", R"({"order": "arrival"})");
  CHECK(replica.decide(*policy).admit.empty());
  replica.sequences[back.index].prefill_tokens = 69;
  CHECK(indices(admitted(replica.decide(*policy))) == Line{back.index, 2});
}

TEST_CASE("batchllm: nobody waits for one that computes the prefix no longer", "[unit]") {
  // Of three that share 100 the first has computed 60. While it goes on the others wait; they do not when it has left,
  // or had to go back to the queue: what it computed is all that there is to have.
  const auto after = [](const auto& change) {
    TextReplica replica(10'000);
    const auto policy = make_batching("batchllm", R"({"prefill_tokens": 60})");
    for (std::uint64_t i = 0; i < 3; ++i) replica.say({{1, 100}, {11 + i, 10}});
    replica.apply(replica.decide(*policy));
    REQUIRE(replica.running == std::vector<SeqId>{{0}});
    change(replica, replica.sequences[0]);
    return indices(admitted(replica.decide(*policy)));
  };
  CHECK(after([](TextReplica&, Sequence&) {}) == Line{});
  CHECK(after([](TextReplica& replica, Sequence&) { replica.end({0}); }) == Line{1, 2});
  CHECK(after([](TextReplica& replica, Sequence& first) {
          std::erase(replica.running, SeqId{0});
          std::erase(replica.prefilling, SeqId{0});
          first.phase = Phase::waiting;
        }) == Line{1, 2});
}

TEST_CASE("batchllm: nobody waits for a prefix that the cache has, nor for one that has left before", "[unit]") {
  TextReplica replica(10'000);
  const auto policy = make_batching("batchllm");
  const SeqId gone = replica.prefill(60, 0);
  replica.end(gone);
  const SeqId first = replica.say({{1, 100}, {11, 10}}), second = replica.say({{1, 100}, {12, 10}});
  BatchDecision decision = replica.decide(*policy);
  CHECK(indices(admitted(decision)) == Line{first.index});
  replica.apply(decision);
  replica.end(first);
  replica.sequences[second.index].order = -1;
  replica.waiting.clear();
  const SeqId a = replica.say({{1, 100}, {13, 10}}), b = replica.say({{1, 100}, {14, 10}});
  decision = replica.decide(*policy);
  CHECK(items(decision) == Items{{a.index, 10}, {b.index, 10}});
}

TEST_CASE("batchllm: the room is counted anew at every decision", "[unit]") {
  // Two run that are to hold 80 each, and one waits that is to hold 81: of 240 pages there are 80, then 160.
  TextReplica replica(240);
  const auto policy = make_batching("batchllm");
  for (int i = 0; i < 2; ++i) replica.sequences[replica.decode(50).index].predicted_tokens = 31;
  const SeqId waits = replica.say({{1, 50}}, 32);
  CHECK(replica.decide(*policy).admit.empty());
  replica.end({1});
  CHECK(indices(admitted(replica.decide(*policy))) == Line{waits.index});
}

}  // namespace test_batchllm
