#include "tests/policies/view.hpp"

namespace test_seesaw {

using namespace orrery::policies;
using namespace orrery::policies::test;

namespace {

/// A waiting sequence whose first `ready` tokens are in the store.
SeqId store(PaperReplica& replica, std::int64_t ready) {
  const SeqId id = replica.wait(ready);
  replica.sequences[id.index].prefill_tokens = ready + 1;
  replica.sequences[id.index].ready_tokens = ready;
  return id;
}

}  // namespace

TEST_CASE("seesaw: prompts in their layout, what is prefilled goes to the store", "[unit]") {
  PaperReplica replica(100);
  replica.limits.tier_tokens = 1000;
  const auto policy = make_batching("seesaw", R"({"max_batched_tokens": 300})");
  const SeqId a = replica.wait(200), b = replica.wait(100);
  replica.wait(50);
  const BatchDecision first = replica.decide(*policy);
  CHECK(first.mode == 0);
  CHECK(admitted(first) == std::vector<SeqId>{a, b});  // 200 + 100 of 300; the third has to wait
  CHECK(items(first) == Items{{0, 200}, {1, 100}});
  CHECK_FALSE(first.decode_rest);
}

TEST_CASE("seesaw: a phase of prompts ends when the store has no room for the next", "[unit]") {
  for (const std::int64_t room : {620, 619}) {
    PaperReplica replica(100);
    replica.limits.tier_tokens = room;
    const auto policy = make_batching("seesaw", R"({"max_batched_tokens": 300})");
    const SeqId first = replica.wait(220);
    CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{first});
    replica.waiting.clear();
    const SeqId kept = store(replica, 300);  // and 100 run, 220 wait: 620
    replica.decode(100);
    replica.wait(220);
    const BatchDecision next = replica.decide(*policy);
    CHECK(next.mode == (room == 620 ? 0 : 1));
    if (room == 619) CHECK(admitted(next) == std::vector<SeqId>{kept});
    // Either way what ran is put away: its keys and values are in the prefill layout.
    if (room == 620) CHECK(preempted(next) == std::vector<SeqId>{{2}});
  }
}

TEST_CASE("seesaw: what runs goes to the store where that has room beside what waits in it", "[unit]") {
  // 300 tokens are stored and 100 run; the next prompt does not fit, so decodes begin, in their layout.
  for (const std::int64_t room : {400, 399}) {
    PaperReplica replica(100);
    replica.limits.tier_tokens = room;
    store(replica, 300);
    const SeqId runs = replica.decode(100);
    replica.wait(220);
    const BatchDecision decision = replica.decide(*make_batching("seesaw", "{}"));
    CHECK(decision.mode == 1);
    REQUIRE(preempted(decision) == std::vector<SeqId>{runs});
    CHECK(decision.preempt[0].how == (room == 400 ? Preempt::swap : Preempt::recompute));
  }
}

TEST_CASE("seesaw: with prompts waiting it decodes until the store is empty, then switches back", "[unit]") {
  PaperReplica replica(100);
  replica.limits.tier_tokens = 1000;
  replica.mode = 1;
  const auto policy = make_batching("seesaw", R"({"watermark": 0, "max_sequences": 2})");
  const SeqId runs = replica.decode(100);
  const SeqId kept = store(replica, 300);
  const SeqId prompt = replica.wait(200);
  const BatchDecision fills = replica.decide(*policy);
  CHECK_FALSE(fills.mode);
  CHECK(admitted(fills) == std::vector<SeqId>{kept});  // the free slot; the prompt waits although blocks are free
  CHECK(items(fills) == Items{{kept.index, 1}});
  CHECK(fills.decode_rest);
  replica.waiting = {prompt};
  const BatchDecision back = replica.decide(*policy);
  CHECK(back.mode == 0);
  REQUIRE(back.preempt.size() == 1);
  CHECK(back.preempt[0].seq == runs);
  CHECK(back.preempt[0].how == Preempt::swap);
  CHECK(admitted(back) == std::vector<SeqId>{prompt});
}

TEST_CASE("seesaw: nothing to fill with, nothing to compute: decodes alone, for as long as they last", "[unit]") {
  PaperReplica replica(100);
  replica.limits.tier_tokens = 1000;
  replica.mode = 1;
  const auto policy = make_batching("seesaw");
  replica.decode(100);
  const BatchDecision decision = replica.decide(*policy);
  CHECK(decision.stable_iterations == kStable);
  CHECK(decision.preempt.empty());
}

TEST_CASE("seesaw: a prompt that the store can never take is computed when nothing else runs", "[unit]") {
  PaperReplica replica(100);
  replica.limits.tier_tokens = GENERATE(0, 99);
  const auto policy = make_batching("seesaw");
  const SeqId prompt = replica.wait(100);
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{prompt});
}

}  // namespace test_seesaw
