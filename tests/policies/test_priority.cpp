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

}  // namespace test_priority
