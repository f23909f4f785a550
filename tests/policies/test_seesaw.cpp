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

TEST_CASE("seesaw: refuses a replica with fewer layouts than it switches between", "[unit]") {
  ReplicaLimits limits;
  const auto obstacle = [&](std::int32_t modes, const std::string& params = "{}") {
    limits.modes = modes;
    return make_batching("seesaw", params)->obstacle(limits);
  };
  CHECK_FALSE(obstacle(2));
  CHECK_FALSE(obstacle(0));  // nobody says
  CHECK(obstacle(1) ==
        "seesaw switches to mode 1 (prefill_mode, decode_mode), counted from 0, and the replica has 1 "
        "(layouts.modes)");
  CHECK(obstacle(2, R"({"prefill_mode": 2, "decode_mode": 0})").value().starts_with("seesaw switches to mode 2"));
  CHECK(obstacle(3, R"({"decode_mode": 3})").value().ends_with("the replica has 3 (layouts.modes)"));
  CHECK_FALSE(obstacle(3, R"({"prefill_mode": 2, "decode_mode": 0})"));
}

TEST_CASE("seesaw: a batch of prompts is what tokens, blocks, store and slots allow", "[unit]") {
  struct Case {
    std::int64_t first, second, blocks, room, elsewhere;
    const char* params;
    std::size_t count;
  };
  for (const Case& c :
       {Case{200, 100, 100, 1000, 0, R"({"max_batched_tokens": 300})", 2},
        Case{200, 101, 100, 1000, 0, R"({"max_batched_tokens": 300})", 1},
        Case{400, 1, 100, 1000, 0, R"({"max_batched_tokens": 300})", 1},  // alone, though it is more
        Case{96, 64, 10, 1000, 0, "{}", 2},                               // 6 + 4 blocks
        Case{96, 65, 10, 1000, 0, "{}", 1}, Case{100, 100, 100, 200, 0, "{}", 2}, Case{100, 101, 100, 200, 0, "{}", 1},
        Case{100, 100, 100, 1000, 1, R"({"max_sequences": 3})", 2},
        Case{100, 100, 100, 1000, 1, R"({"max_sequences": 2})", 1},
        Case{100, 100, 100, 1000, 2, R"({"max_sequences": 2})", 0}}) {
    CAPTURE(c.first, c.second, c.blocks, c.room, c.elsewhere, c.params);
    PaperReplica replica(c.blocks);
    replica.limits.tier_tokens = c.room;
    replica.elsewhere = c.elsewhere;
    replica.wait(c.first);
    replica.wait(c.second);
    const BatchDecision decision = replica.decide(*make_batching("seesaw", c.params));
    CHECK(decision.mode == 0);
    CHECK(decision.admit.size() == c.count);
    CHECK_FALSE(decision.decode_rest);
  }
}

TEST_CASE("seesaw: the budget of prompts is the context limit, 2,048 at least", "[unit]") {
  for (const std::int64_t context : {1000, 4096}) {
    PaperReplica replica(10'000);
    replica.limits.tier_tokens = 100'000;
    replica.limits.max_context = context;
    replica.wait(2000);
    replica.wait(48);
    replica.wait(1);
    CHECK(replica.decide(*make_batching("seesaw")).admit.size() == (context == 1000 ? 2 : 3));
  }
}

TEST_CASE("seesaw: the caches of other lanes count against the store before a prompt", "[unit]") {
  for (const std::int64_t elsewhere : {200, 201}) {
    PaperReplica replica(100);
    replica.limits.tier_tokens = 300;
    replica.elsewhere = 1;
    replica.elsewhere_tokens = elsewhere;
    const SeqId prompt = replica.wait(100);
    replica.wait(1);
    const BatchDecision decision = replica.decide(*make_batching("seesaw"));
    CHECK(decision.mode == (elsewhere == 200 ? 0 : 1));
    CHECK(admitted(decision) == (elsewhere == 200 ? std::vector<SeqId>{prompt} : std::vector<SeqId>{}));
  }
}

TEST_CASE("seesaw: while prompts go on, what is stored and what runs take their part of the store", "[unit]") {
  // A phase of prompts has begun. 100 are stored, 50 run, and go to the store: of 400 there are 250 for two prompts.
  for (const std::int64_t second : {50, 51}) {
    PaperReplica replica(100);
    replica.limits.tier_tokens = 400;
    const auto policy = make_batching("seesaw");
    const SeqId begin = replica.wait(10);
    REQUIRE(admitted(replica.decide(*policy)) == std::vector<SeqId>{begin});
    replica.waiting.clear();
    store(replica, 100);
    const SeqId runs = replica.decode(50);
    const SeqId a = replica.wait(200), b = replica.wait(second);
    const BatchDecision decision = replica.decide(*policy);
    CHECK(decision.mode == 0);
    REQUIRE(preempted(decision) == std::vector<SeqId>{runs});
    CHECK(decision.preempt[0].how == Preempt::swap);
    CHECK(admitted(decision) == (second == 50 ? std::vector<SeqId>{a, b} : std::vector<SeqId>{a}));
  }
  // And 100 of another lane: 150 are left.
  PaperReplica replica(100);
  replica.limits.tier_tokens = 400;
  const auto policy = make_batching("seesaw");
  replica.wait(10);
  replica.decide(*policy);
  replica.waiting.clear();
  replica.elsewhere = 1;
  replica.elsewhere_tokens = 100;
  store(replica, 150);
  const SeqId a = replica.wait(100);
  replica.wait(51);
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{a});
  replica.sequences.back().prefill_tokens = 50;
  CHECK(replica.decide(*policy).admit.size() == 2);
}

TEST_CASE("seesaw: what runs leaves its blocks to the prompts", "[unit]") {
  // 10 blocks, 5 of them held: a prompt of 10 blocks takes their place.
  PaperReplica replica(10);
  replica.limits.tier_tokens = 1000;
  const SeqId a = replica.decode(30), b = replica.decode(40);
  const SeqId prompt = replica.wait(160);
  const BatchDecision decision = replica.decide(*make_batching("seesaw"));
  CHECK(decision.mode == 0);
  CHECK(preempted(decision) == std::vector<SeqId>{b, a});  // the earliest admitted is first in the queue then
  CHECK(admitted(decision) == std::vector<SeqId>{prompt});
  // A prompt that no cache of ten blocks holds is none to switch for.
  replica.sequences[prompt.index].prefill_tokens = 161;
  CHECK(replica.decide(*make_batching("seesaw")).mode == 1);
}

TEST_CASE("seesaw: the store takes the latest while it has room, and decodes alone", "[unit]") {
  // 300 are stored; 60 and 100 run, in turn. Of 160 that are left both go there, of 159 only the later.
  for (const std::int64_t room : {460, 459}) {
    PaperReplica replica(100);
    replica.limits.tier_tokens = room;
    const SeqId kept = store(replica, 300);
    const SeqId a = replica.decode(60), b = replica.decode(100);
    const BatchDecision decision = replica.decide(*make_batching("seesaw"));
    CHECK(decision.mode == 1);
    CHECK(preempted(decision) == std::vector<SeqId>{b, a});
    CHECK(decision.preempt[0].how == Preempt::swap);
    CHECK(decision.preempt[1].how == (room == 460 ? Preempt::swap : Preempt::recompute));
    CHECK(admitted(decision) == std::vector<SeqId>{kept});
    CHECK(items(decision) == Items{{kept.index, 1}});
    CHECK(decision.admit[0].reserve_tokens == 301);
  }
  // An unfinished prompt has nothing to store.
  PaperReplica replica(100);
  replica.limits.tier_tokens = 1000;
  store(replica, 300);
  replica.prefill(60, 30);
  const BatchDecision decision = replica.decide(*make_batching("seesaw"));
  REQUIRE(decision.preempt.size() == 1);
  CHECK(decision.preempt[0].how == Preempt::recompute);
}

TEST_CASE("seesaw: the device is filled from the store down to the watermark, or to the last block if it is empty",
          "[unit]") {
  // 100 blocks, 2 held; a tenth is to be free, so that 88 may go beside who runs.
  for (const std::int64_t blocks : {88, 89}) {
    PaperReplica replica(100);
    replica.limits.tier_tokens = 100'000;
    replica.mode = 1;
    replica.decode(20);
    store(replica, blocks * 16 - 1);
    const BatchDecision decision = replica.decide(*make_batching("seesaw", R"({"watermark": 0.1})"));
    CHECK(decision.admit.size() == (blocks == 88 ? 1 : 0));
    CHECK(decision.preempt.empty());
    CHECK(decision.stable_iterations == (blocks == 88 ? 1 : kStable));
  }
  // Nobody runs: the first may have all, and what is left beside it has to leave the tenth free.
  for (const std::int64_t second : {40, 41}) {
    PaperReplica replica(100);
    replica.limits.tier_tokens = 100'000;
    replica.mode = 1;
    const SeqId all = store(replica, 1599);
    CHECK(admitted(replica.decide(*make_batching("seesaw", R"({"watermark": 0.1})"))) == std::vector<SeqId>{all});
    replica.sequences[all.index].ready_tokens = 799;
    replica.sequences[all.index].prefill_tokens = 800;  // 50 blocks
    store(replica, second * 16 - 1);
    CHECK(replica.decide(*make_batching("seesaw", R"({"watermark": 0.1})")).admit.size() == (second == 40 ? 2 : 1));
  }
}

TEST_CASE("seesaw: slots limit what comes out of the store, here and in other lanes", "[unit]") {
  PaperReplica replica(100);
  replica.limits.tier_tokens = 10'000;
  replica.mode = 1;
  replica.decode(20);
  replica.elsewhere = 1;
  replica.wait(500);  // a prompt is not what the store has
  for (int i = 0; i < 3; ++i) store(replica, 100);
  const auto count = [&](const std::string& slots) {
    return replica.decide(*make_batching("seesaw", R"({"max_sequences": )" + slots + "}")).admit.size();
  };
  CHECK(count("2") == 0);
  CHECK(count("3") == 1);
  CHECK(count("4") == 2);
  CHECK(count("9") == 3);
}

TEST_CASE("seesaw: what the store has is larger than the cache: who runs goes on", "[unit]") {
  PaperReplica replica(10);
  replica.limits.tier_tokens = 1000;
  store(replica, 200);  // 13 blocks
  replica.decode(20);
  const BatchDecision decision = replica.decide(*make_batching("seesaw"));
  CHECK(decision.mode == 1);
  CHECK(decision.preempt.empty());
  CHECK(decision.admit.empty());
  CHECK(decision.decode_rest);
}

TEST_CASE("seesaw: the last prompts decode in the other layout, and without a store in whichever there is", "[unit]") {
  for (const std::int64_t room : {1000, 0}) {
    PaperReplica replica(10);
    replica.limits.tier_tokens = room;
    replica.decode(20);
    const BatchDecision decision = replica.decide(*make_batching("seesaw"));
    CHECK(decision.mode == (room > 0 ? std::optional<std::int32_t>(1) : std::nullopt));
    CHECK(decision.preempt.empty());
    CHECK(decision.decode_rest);
    CHECK(decision.stable_iterations == kStable);
  }
}

TEST_CASE("seesaw: where decodes lack blocks the latest goes to the store, if that has room beside what is in it",
          "[unit]") {
  // Two of 32 tokens in 4 blocks; 100 tokens are stored already.
  for (const std::int64_t room : {132, 131}) {
    PaperReplica replica(4);
    replica.limits.tier_tokens = room;
    replica.mode = 1;
    replica.decode(32);
    const SeqId last = replica.decode(32);
    store(replica, 100);
    const BatchDecision decision = replica.decide(*make_batching("seesaw"));
    CHECK_FALSE(decision.mode);
    REQUIRE(preempted(decision) == std::vector<SeqId>{last});
    CHECK(decision.preempt[0].how == (room == 132 ? Preempt::swap : Preempt::recompute));
    CHECK(decision.admit.empty());
    CHECK(decision.stable_iterations == 1);
  }
}

TEST_CASE("seesaw: the layouts are those that it was told", "[unit]") {
  const std::string modes = R"({"prefill_mode": 2, "decode_mode": 3})";
  PaperReplica prompts(100);
  prompts.limits.tier_tokens = 1000;
  prompts.wait(50);
  CHECK(prompts.decide(*make_batching("seesaw", modes)).mode == 2);
  PaperReplica decodes(100);
  decodes.limits.tier_tokens = 1000;
  decodes.decode(50);
  decodes.mode = 1;
  CHECK(decodes.decide(*make_batching("seesaw", modes)).mode == 3);
  decodes.mode = 3;
  CHECK_FALSE(decodes.decide(*make_batching("seesaw", modes)).mode);
}

TEST_CASE("seesaw: the first out of the store may have the whole device at a switch, and one token is stored too",
          "[unit]") {
  PaperReplica replica(100);
  replica.limits.tier_tokens = 10'000;
  const SeqId all = store(replica, 1599);
  CHECK(admitted(replica.decide(*make_batching("seesaw", R"({"watermark": 0.1})"))) == std::vector<SeqId>{all});
  PaperReplica small(100);
  small.limits.tier_tokens = 10'000;
  const SeqId one = store(small, 1);
  small.wait(50);
  const BatchDecision decision = small.decide(*make_batching("seesaw"));
  CHECK(decision.mode == 1);
  CHECK(admitted(decision) == std::vector<SeqId>{one});
}

}  // namespace test_seesaw
