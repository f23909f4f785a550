#include "tests/policies/kv_support.hpp"
#include "tests/policies/view.hpp"

namespace test_priority {

using namespace orrery::policies;
using namespace orrery::policies::test;

namespace {

void set(PaperReplica& replica, SeqId id, int priority) {
  replica.sequences[id.index].priority = priority;
}

}  // namespace

TEST_CASE("priority: higher goes first, equal ones by arrival", "[unit]") {
  PaperReplica replica(1000);
  const auto policy = make_batching("priority", R"({"max_sequences": 3})");
  const SeqId low = replica.wait(10);
  const SeqId a = replica.wait(10);
  const SeqId b = replica.wait(10);
  const SeqId high = replica.wait(10);
  set(replica, low, -1);
  set(replica, high, 5);
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{high, a, b});
}

TEST_CASE("priority: the lowest goes when blocks lack, though it is not the latest", "[unit]") {
  // 6 blocks, 2 each, all at a block's edge: three need one more. The lowest leaves 2, of 2 that the others need.
  PaperReplica replica(6);
  const auto policy = make_batching("priority");
  replica.decode(32);
  const SeqId low = replica.decode(32);
  replica.decode(32);
  set(replica, low, -1);
  const BatchDecision decision = replica.decide(*policy);
  CHECK(preempted(decision) == std::vector<SeqId>{low});
  CHECK(decision.decode_rest);
}

TEST_CASE("priority: of equals the latest arrival goes, though another was admitted after it", "[unit]") {
  PaperReplica replica(6);
  const SeqId first = replica.decode(32), second = replica.decode(32), high = replica.decode(32);
  set(replica, high, 1);
  replica.admit_last(first);
  CHECK(preempted(replica.decide(*make_batching("priority"))) == std::vector<SeqId>{second});
}

TEST_CASE("priority: whoever was given tokens already gives them back when it has to go", "[unit]") {
  PaperReplica replica(6);
  const auto policy = make_batching("priority");
  const SeqId first = replica.prefill(40, 32);  // 3 blocks, its chunk of 8 needs none
  set(replica, first, -1);
  replica.decode(48);  // 3 blocks, needs a fourth
  const BatchDecision decision = replica.decide(*policy);
  CHECK(preempted(decision) == std::vector<SeqId>{first});
  CHECK(decision.items.empty());
}

TEST_CASE("a number that is another's by the time its sequence would come back stands for one sequence", "[unit]") {
  for (const char* name : {"priority", "sjf", "vtc"}) {
    CAPTURE(name);
    PaperReplica replica(7);  // three of 2 blocks, each needs one more
    const auto policy = make_batching(name);
    replica.decode(32);
    replica.decode(32);
    const SeqId last = replica.decode(32);
    REQUIRE(preempted(replica.decide(*policy)) == std::vector<SeqId>{last});
    // Its replica fails before the next decision, and a newcomer gets its number.
    replica.kv->release(last, replica.sequences[last.index], 32, Leave::drop);
    replica.running.pop_back();
    --replica.decoding;
    const SeqId newcomer = replica.wait(10);
    replica.sequences[last.index] = replica.sequences[newcomer.index];
    replica.sequences[newcomer.index].order = -1;
    replica.waiting.back() = last;
    CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{last});
  }
}

TEST_CASE("vtc: whom another lane had to preempt comes back", "[unit]") {
  PaperReplica replica(100);
  const auto policy = make_batching("vtc");
  const SeqId one = replica.wait(10);
  REQUIRE(admitted(replica.decide(*policy)) == std::vector<SeqId>{one});
  policy->returned(one);  // it runs no longer: on paper it never left the queue
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{one});
}

TEST_CASE("priority: waits for a slot, or takes one if it may", "[unit]") {
  for (const bool preemptive : {false, true}) {
    PaperReplica replica(1000);
    const auto policy = make_batching(
        "priority", std::string(R"({"max_sequences": 2, "preemptive": )") + (preemptive ? "true}" : "false}"));
    const SeqId lower = replica.decode(100);
    const SeqId low = replica.decode(100);
    set(replica, lower, -2);
    set(replica, low, -1);
    const SeqId normal = replica.wait(10);
    replica.wait(10);
    const BatchDecision decision = replica.decide(*policy);
    if (preemptive) {
      CHECK(preempted(decision) == std::vector<SeqId>{lower});
      CHECK(admitted(decision) == std::vector<SeqId>{normal});
    } else {
      CHECK(decision.preempt.empty());
      CHECK(decision.admit.empty());
      CHECK(decision.stable_iterations == kStable);
    }
  }
}

TEST_CASE("priority: nobody makes way for an equal", "[unit]") {
  PaperReplica replica(1000);
  const auto policy = make_batching("priority", R"({"max_sequences": 1, "preemptive": true})");
  replica.decode(100);
  replica.wait(10);
  const BatchDecision decision = replica.decide(*policy);
  CHECK(decision.preempt.empty());
  CHECK(decision.admit.empty());
}

TEST_CASE("priority: blocks are taken from the lowest, as many as the prompt needs", "[unit]") {
  PaperReplica replica(10);
  const auto policy = make_batching("priority", R"({"preemptive": true})");
  const SeqId a = replica.decode(60);  // 4 blocks
  const SeqId b = replica.decode(90);  // 6 blocks
  set(replica, a, 1);
  const SeqId high = replica.wait(96);  // 6 blocks
  set(replica, high, 2);
  const BatchDecision decision = replica.decide(*policy);
  CHECK(preempted(decision) == std::vector<SeqId>{b});
  CHECK(admitted(decision) == std::vector<SeqId>{high});
}

TEST_CASE("priority: nobody is stopped where that does not make room enough", "[unit]") {
  // 4 + 5 of 10 blocks are held; the prompt needs 6 and a block is free: with the 4 of the lower it would have 5.
  PaperReplica replica(10);
  const auto policy = make_batching("priority", R"({"preemptive": true})");
  const SeqId low = replica.decode(60);
  const SeqId equal = replica.decode(75);
  const SeqId high = replica.wait(96);
  set(replica, low, -1);
  set(replica, equal, 2);
  set(replica, high, 2);
  CHECK(replica.decide(*policy).preempt.empty());
}

TEST_CASE("priority: what those who make way hold of the prompt does not count as shared any longer", "[unit]") {
  // A document of 64 tokens is 4 blocks. A reader holds 6 of 10 blocks, somebody else 3, and one is free. Who comes
  // shares 4 of its own 8 blocks with the reader; in its place it would find 7 of 8.
  const Text text{{1, 64}, {2, 1000}};
  const Text other{{1, 64}, {3, 1000}};
  for (const std::int64_t blocks : {10, 11}) {
    PaperReplica replica(blocks);
    replica.kv = make_cache("block_hash", "{}", blocks * 16);
    const auto policy = make_batching("priority", R"({"preemptive": true})");
    const SeqId low = replica.wait(90);
    replica.waiting.clear();
    Sequence& reader = replica.sequences[low.index];
    reader.text = &text;
    REQUIRE(replica.kv->admit(low, reader, 90));
    replica.kv->computed(low, reader, 90);
    reader.phase = Phase::decode;
    reader.prefilled = reader.kv_then = 90;
    reader.generated_then = 1;
    reader.priority = -1;
    replica.running.push_back(low);
    ++replica.decoding;
    set(replica, replica.decode(40), 1);
    const SeqId high = replica.wait(120);
    replica.sequences[high.index].text = &other;
    const BatchDecision decision = replica.decide(*policy);
    // In ten blocks it is admitted with what there is beside the reader or not at all, in eleven in its place.
    CHECK(preempted(decision) == (blocks == 10 ? std::vector<SeqId>{} : std::vector<SeqId>{low}));
    for (const Preemption& gone : decision.preempt)
      replica.kv->release(gone.seq, replica.sequences[gone.seq.index], 90, Leave::drop);
    for (const Admission& one : decision.admit)
      CHECK(replica.kv->admit(one.seq, replica.sequences[one.seq.index], one.reserve_tokens));
  }
}

TEST_CASE("priority: of equals that may make way the latest arrival does, whenever it was admitted", "[unit]") {
  PaperReplica replica(1000);
  const auto policy = make_batching("priority", R"({"max_sequences": 3, "preemptive": true})");
  const SeqId first = replica.decode(100), second = replica.decode(100), third = replica.decode(100);
  set(replica, third, 1);
  replica.admit_last(first);
  const SeqId high = replica.wait(10);
  set(replica, high, 1);
  const BatchDecision decision = replica.decide(*policy);
  CHECK(preempted(decision) == std::vector<SeqId>{second});
  CHECK(admitted(decision) == std::vector<SeqId>{high});
}

TEST_CASE("priority: nobody makes way for a prompt that fits the blocks left beside what decodes grow by", "[unit]") {
  // 4 of 10 blocks, full: 6 are free, one is grown into. 80 tokens are 5 blocks, 81 are 6; 160 are all 10 of the cache,
  // the 5 and those that the decode held and would have taken.
  for (const auto& [prompt, makes_way] : {std::pair(80, false), std::pair(81, true), std::pair(160, true)}) {
    PaperReplica replica(10);
    const auto policy = make_batching("priority", R"({"preemptive": true})");
    const SeqId low = replica.decode(64);
    const SeqId high = replica.wait(prompt);
    set(replica, high, 1);
    const BatchDecision decision = replica.decide(*policy);
    CHECK(preempted(decision) == (makes_way ? std::vector<SeqId>{low} : std::vector<SeqId>{}));
    CHECK(admitted(decision) == std::vector<SeqId>{high});
  }
  // Where the decode does not grow all 6 are there.
  for (const auto& [prompt, makes_way] : {std::pair(96, false), std::pair(97, true)}) {
    PaperReplica replica(10);
    replica.decode(60);
    set(replica, replica.wait(prompt), 1);
    CHECK(replica.decide(*make_batching("priority", R"({"preemptive": true})")).preempt.empty() != makes_way);
  }
}

TEST_CASE("priority: the lowest make way one by one, as many as it takes", "[unit]") {
  // Four of 2 blocks each of 8, none of which grows. 2 blocks take the lowest, 3 and 4 the two lowest, 5 a third.
  const auto goes = [](std::int64_t prompt) {
    PaperReplica replica(8);
    for (const int priority : {-1, -3, 0, -2}) set(replica, replica.decode(20), priority);
    set(replica, replica.wait(prompt), 1);
    return preempted(replica.decide(*make_batching("priority", R"({"preemptive": true})")));
  };
  CHECK(goes(32) == std::vector<SeqId>{{1}});
  CHECK(goes(33) == std::vector<SeqId>{{1}, {3}});
  CHECK(goes(64) == std::vector<SeqId>{{1}, {3}});
  CHECK(goes(65) == std::vector<SeqId>{{1}, {3}, {0}});
  CHECK(goes(128) == std::vector<SeqId>{{1}, {3}, {0}, {2}});
}

TEST_CASE("priority: a prompt that lacks a slot as well as blocks has both made free", "[unit]") {
  // Slots for 3, three run with 1, 2 and 2 of 6 blocks: one is free, and a prompt of 3 needs two more. The lowest gives
  // the slot and one block, the next the rest.
  PaperReplica replica(6);
  for (const auto& [prompt, priority] : {std::pair(10, -3), std::pair(20, -2), std::pair(20, -1)})
    set(replica, replica.decode(prompt), priority);
  const SeqId high = replica.wait(48);
  set(replica, high, 1);
  BatchDecision decision = replica.decide(*make_batching("priority", R"({"preemptive": true, "max_sequences": 3})"));
  CHECK(preempted(decision) == std::vector<SeqId>{{0}, {1}});
  CHECK(admitted(decision) == std::vector<SeqId>{high});
  // With a slot more it is the same two; with blocks enough it is the one whose slot it takes.
  CHECK(preempted(replica.decide(*make_batching("priority", R"({"preemptive": true})"))) ==
        std::vector<SeqId>{{0}, {1}});
  replica.sequences[high.index].prefill_tokens = 16;
  decision = replica.decide(*make_batching("priority", R"({"preemptive": true, "max_sequences": 3})"));
  CHECK(preempted(decision) == std::vector<SeqId>{{0}});
  CHECK(replica.decide(*make_batching("priority", R"({"preemptive": true})")).preempt.empty());
}

TEST_CASE("priority: where all of lower priority have no slots enough, nobody goes", "[unit]") {
  // Two of another lane have the slots: one that goes here leaves none free.
  PaperReplica replica(100);
  const SeqId low = replica.decode(20);
  set(replica, low, -1);
  set(replica, replica.wait(10), 1);
  replica.elsewhere = 2;
  CHECK(replica.decide(*make_batching("priority", R"({"preemptive": true, "max_sequences": 2})")).preempt.empty());
  CHECK(preempted(replica.decide(*make_batching("priority", R"({"preemptive": true, "max_sequences": 3})"))) ==
        std::vector<SeqId>{low});
}

TEST_CASE("priority: after some made way for one nobody else is admitted, and the others come next", "[unit]") {
  // The low one holds 9 of 10 blocks; who comes in its place takes 2, and 8 are left.
  PaperReplica replica(10);
  const auto policy = make_batching("priority", R"({"preemptive": true})");
  const SeqId low = replica.decode(140);
  set(replica, low, -1);
  const SeqId high = replica.wait(32);
  const SeqId next = replica.wait(16);
  const BatchDecision decision = replica.decide(*policy);
  CHECK(preempted(decision) == std::vector<SeqId>{low});
  CHECK(admitted(decision) == std::vector<SeqId>{high});
  CHECK(decision.decode_rest);
  CHECK(decision.stable_iterations == 1);
  replica.stop(low);
  std::erase(replica.waiting, high);
  replica.sequences[high.index].phase = Phase::decode;
  REQUIRE(replica.kv->reserve(high, replica.sequences[high.index], 32));
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{next});  // 8 blocks are free; the low one needs 9
}

TEST_CASE("priority: who is paused makes no way, and who never fits asks for none", "[unit]") {
  PaperReplica replica(10);
  const SeqId paused = replica.decode(60), low = replica.decode(60);
  set(replica, paused, -2);
  replica.pause(paused);
  set(replica, low, -1);
  const SeqId never = replica.wait(161);  // 11 blocks
  const SeqId high = replica.wait(60);
  set(replica, never, 2);
  set(replica, high, 1);
  // The first in the queue is passed over, and nobody goes for those behind it.
  const auto policy = make_batching("priority", R"({"preemptive": true})");
  CHECK(replica.decide(*policy).preempt.empty());
  // It is out of the queue now, and the next is first.
  const BatchDecision decision = replica.decide(*policy);
  CHECK(preempted(decision) == std::vector<SeqId>{low});
  CHECK(admitted(decision) == std::vector<SeqId>{high});
}

TEST_CASE("priority: not preemptive, who never fits keeps nobody back and who does not fit now does", "[unit]") {
  PaperReplica replica(10);
  const auto policy = make_batching("priority");
  replica.decode(60);
  set(replica, replica.wait(161), 3);
  const SeqId fits = replica.wait(40);
  set(replica, fits, 2);
  set(replica, replica.wait(60), 1);  // 4 blocks of 10 - 4 - 3
  replica.wait(10);
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{fits});
}

}  // namespace test_priority
