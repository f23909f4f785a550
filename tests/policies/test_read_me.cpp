// Read-ME: batches filled from the longest of the experts' queues.
#include <catch2/catch.hpp>
#include <map>

#include "tests/policies/view.hpp"

namespace orrery::policies::test {
namespace {

/// The tokens to come of each sequence choose these experts, the last one on and on.
class Foresight final : public ExpertForesight {
 public:
  void chosen(SeqId id, std::int64_t first, std::int64_t tokens, std::vector<std::uint16_t>& out) const override {
    const std::vector<std::uint16_t>& all = of.at(id);
    out.clear();
    for (std::int64_t i = 0; i < tokens; ++i)
      out.push_back(all[std::min(static_cast<std::size_t>(first - begin[id] + i), all.size() - 1)]);
  }
  /// Tokens of a sequence that are done: its list begins after them.
  mutable std::map<SeqId, std::int64_t> begin;
  std::map<SeqId, std::vector<std::uint16_t>> of;
};

/// Who gets how many tokens.
std::map<SeqId, std::int64_t> tokens_of(const BatchDecision& decision) {
  std::map<SeqId, std::int64_t> all;
  for (const Item& item : decision.items) all[item.seq] += item.new_tokens;
  return all;
}

TEST_CASE("read_me: a batch is filled from the longest queue", "[unit]") {
  PaperReplica replica(100);
  Foresight experts;
  replica.experts = &experts;
  const SeqId a = replica.decode(16), b = replica.decode(16), c = replica.decode(16), d = replica.decode(16);
  experts.of = {{a, {7}}, {b, {2}}, {c, {7}}, {d, {5}}};
  const auto two = make_batching("read_me", R"({"max_tokens": 2})");
  BatchDecision out = replica.decide(*two);
  CHECK_FALSE(out.decode_rest);
  CHECK(tokens_of(out) == std::map<SeqId, std::int64_t>{{a, 1}, {c, 1}});  // expert 7 has two tokens, the others one
  // Of queues as long as each other the expert with the lowest number: 2 before 5.
  const auto three = make_batching("read_me", R"({"max_tokens": 3})");
  out = replica.decide(*three);
  CHECK(tokens_of(out) == std::map<SeqId, std::int64_t>{{a, 1}, {b, 1}, {c, 1}});
  // Where all fit, all go as decodes go elsewhere: no items.
  out = replica.decide(*make_batching("read_me"));
  CHECK(out.decode_rest);
  CHECK(out.items.empty());
}

TEST_CASE("read_me: a chunk of prompt stands in the queue of most of its tokens", "[unit]") {
  PaperReplica replica(100);
  Foresight experts;
  replica.experts = &experts;
  const SeqId a = replica.decode(16), b = replica.decode(16), prompt = replica.prefill(40, 8);
  experts.of = {{a, {1}}, {b, {3}}, {prompt, {1, 3, 3}}};
  experts.begin[prompt] = 8;
  // Its next six tokens choose 1 once and 3 five times: queue 3 has 6 + 1 tokens, and goes by admission, b first.
  const BatchDecision out = replica.decide(*make_batching("read_me", R"({"max_tokens": 6})"));
  CHECK(tokens_of(out) == std::map<SeqId, std::int64_t>{{b, 1}, {prompt, 5}});
  CHECK_FALSE(out.decode_rest);
}

TEST_CASE("read_me: requests are admitted by their queues, and none overtakes one that lacks blocks", "[unit]") {
  PaperReplica replica(12);  // of 16 tokens
  Foresight experts;
  replica.experts = &experts;
  const SeqId a = replica.decode(16), first = replica.wait(20), second = replica.wait(60);
  experts.of = {{a, {0}}, {first, {4}}, {second, {6}}};
  const auto policy = make_batching("read_me", R"({"max_tokens": 64})");
  BatchDecision out = replica.decide(*policy);
  // 60 tokens of expert 6, then 4 of the 20 of expert 4; the decode of expert 0 finds no budget.
  REQUIRE(out.admit.size() == 2);
  CHECK(out.admit[0].seq == second);
  CHECK(out.admit[0].reserve_tokens == 60);
  CHECK(tokens_of(out) == std::map<SeqId, std::int64_t>{{first, 4}, {second, 60}});
  CHECK_FALSE(out.decode_rest);
  // 300 tokens take 19 blocks: the longest queue, but not to be had; nobody else is admitted in its place.
  const SeqId large = replica.wait(300);
  experts.of[large] = {2};
  out = replica.decide(*policy);
  CHECK(out.admit.empty());
  CHECK(out.decode_rest);
  // As many as may run: with one slot the longest queue's.
  PaperReplica one(100);
  one.experts = &experts;
  const SeqId x = one.decode(16), y = one.wait(20), z = one.wait(60);
  experts.of = {{x, {0}}, {y, {4}}, {z, {6}}};
  out = one.decide(*make_batching("read_me", R"({"max_tokens": 500, "max_sequences": 2})"));
  REQUIRE(out.admit.size() == 1);
  CHECK(out.admit[0].seq == y);  // of those that wait only as many as there are slots are looked at, by arrival
}

TEST_CASE("read_me: who was left out as often as its patience goes first", "[unit]") {
  PaperReplica replica(100);
  Foresight experts;
  replica.experts = &experts;
  const SeqId a = replica.decode(16), b = replica.decode(16), rare = replica.decode(16);
  experts.of = {{a, {1}}, {b, {1}}, {rare, {9}}};
  const auto patient = make_batching("read_me", R"({"max_tokens": 2, "patience": 2})");
  for (int i = 0; i < 2; ++i)
    CHECK(tokens_of(replica.decide(*patient)) == std::map<SeqId, std::int64_t>{{a, 1}, {b, 1}});
  CHECK(tokens_of(replica.decide(*patient)) == std::map<SeqId, std::int64_t>{{rare, 1}, {a, 1}});
  // It had its turn, and b is left out for the first time.
  CHECK(tokens_of(replica.decide(*patient)) == std::map<SeqId, std::int64_t>{{a, 1}, {b, 1}});
  // Without patience it waits for ever, as in the paper.
  const auto paper = make_batching("read_me", R"({"max_tokens": 2})");
  for (int i = 0; i < 20; ++i) CHECK_FALSE(tokens_of(replica.decide(*paper)).contains(rare));
}

TEST_CASE("read_me: what is looked at begins behind what is there, and branches stand at one place", "[unit]") {
  PaperReplica replica(100);
  Foresight experts;
  replica.experts = &experts;
  const SeqId a = replica.decode(16, 5), b = replica.decode(16), ready = replica.wait(40);
  replica.branch(a, 3);
  replica.sequences[ready.index].ready_tokens = 30;  // its KV comes with it: tokens 30 to 39 are left
  experts.of = {{a, std::vector<std::uint16_t>(20, 0)}, {b, {2}}, {ready, std::vector<std::uint16_t>(30, 6)}};
  experts.of[a].push_back(1);  // token 20, the next one; 16 of the prompt and four of the output are there
  experts.of[a].push_back(9);  // not for this step
  experts.of[ready].push_back(1);
  // Queue 1 has the ten tokens of the request and the three branches, queue 2 one token.
  const BatchDecision out = replica.decide(*make_batching("read_me", R"({"max_tokens": 13})"));
  REQUIRE(out.admit.size() == 1);
  CHECK(tokens_of(out) == std::map<SeqId, std::int64_t>{{a, 3}, {ready, 10}});
}

TEST_CASE("read_me: where nobody knows the experts all go by admission", "[unit]") {
  PaperReplica replica(100);
  const SeqId a = replica.decode(16), prompt = replica.prefill(40, 8);
  replica.decode(16);  // finds no budget
  const auto policy = make_batching("read_me", R"({"max_tokens": 20})");
  CHECK(tokens_of(replica.decide(*policy)) == std::map<SeqId, std::int64_t>{{a, 1}, {prompt, 19}});
  CHECK_FALSE(policy->obstacle({}).has_value());
  CHECK_THAT(policy->obstacle({.batches = 2}).value(), Catch::Contains("per_lane"));
}

}  // namespace
}  // namespace orrery::policies::test
