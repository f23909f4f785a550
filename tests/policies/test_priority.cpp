#include "tests/policies/view.hpp"

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
