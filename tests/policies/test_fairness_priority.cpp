#include "tests/policies/view.hpp"

namespace test_fairness_priority {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;

TEST_CASE("fairness: without draws it is first come, first served, prompts first", "[unit]") {
  PaperReplica replica(100);
  const auto policy = make_batching("fairness_priority", R"({"period": 0})");
  replica.decode(20);
  const SeqId a = replica.wait(30), b = replica.wait(40);
  const BatchDecision out = replica.decide(*policy);
  CHECK(admitted(out) == std::vector<SeqId>{a, b});
  CHECK_FALSE(out.decode_rest);
  CHECK(out.preempt.empty());
}

TEST_CASE("fairness: one that comes back goes on beside the decodes", "[unit]") {
  PaperReplica replica(100);
  const auto policy = make_batching("fairness_priority", R"({"period": 0})");
  replica.decode(20);
  const SeqId back = replica.wait(30);
  Sequence& seq = replica.sequences[back.index];
  seq.generated_then = 5;
  seq.prefill_tokens = 35;
  seq.ready_tokens = 34;
  seq.preemptions = 1;
  const BatchDecision out = replica.decide(*policy);
  REQUIRE(out.items.size() == 1);
  CHECK(out.items[0].new_tokens == 1);
  CHECK(out.decode_rest);
}

TEST_CASE("fairness: one whose copy lacks more than a token holds the decodes up as a prompt does", "[unit]") {
  PaperReplica replica(100);
  const SeqId back = replica.wait(30);
  Sequence& seq = replica.sequences[back.index];
  seq.generated_then = 5;
  seq.prefill_tokens = 35;
  seq.ready_tokens = 33;
  seq.preemptions = 1;
  const BatchDecision out = replica.decide(*make_batching("fairness_priority", R"({"period": 0})"));
  REQUIRE(out.items.size() == 1);
  CHECK(out.items[0].new_tokens == 2);
  CHECK_FALSE(out.decode_rest);
}

TEST_CASE("fairness: as many run as there are slots, and blocks above the watermark", "[unit]") {
  PaperReplica replica(100);
  replica.decode(20);
  const SeqId a = replica.wait(30);
  replica.wait(30);
  CHECK(admitted(replica.decide(*make_batching("fairness_priority", R"({"period": 0, "max_sequences": 2})"))) ==
        std::vector<SeqId>{a});
  // A quarter of 20 blocks is 5. Two are held, and the decode at a block's end takes a third: 17 are left, of which 12
  // may go: 192 tokens do, 193 do not.
  for (const std::int64_t tokens : {192, 193}) {
    PaperReplica small(20);
    small.decode(32);
    small.wait(tokens);
    CHECK(small.decide(*make_batching("fairness_priority", R"({"period": 0, "watermark": 0.25})")).admit.size() ==
          (tokens == 192 ? 1 : 0));
  }
}

TEST_CASE("fairness: the last makes way by swapping where blocks lack", "[unit]") {
  PaperReplica replica(4);  // two sequences of two full blocks each
  const auto policy = make_batching("fairness_priority", R"({"period": 0})");
  replica.decode(32);
  const SeqId last = replica.decode(32);
  const BatchDecision out = replica.decide(*policy);
  REQUIRE(preempted(out) == std::vector<SeqId>{last});
  CHECK(out.preempt[0].how == Preempt::swap);
  CHECK(out.admit.empty());
}

TEST_CASE("fairness: at every draw those of the highest priority have the slots", "[unit]") {
  // Two run in two slots and one waits. Priorities are drawn anew, so that at two draws of three the one that waits is
  // among the two highest, and one of the others makes way: 133 of 200, with a deviation of 7.
  int came = 0;
  for (std::int64_t draw = 1; draw <= 200; ++draw) {
    PaperReplica replica(100);
    replica.decode(20);
    replica.decode(20);
    replica.wait(30);
    BatchView view = replica.view();
    view.clock = 25 * draw;
    BatchDecision out;
    make_batching("fairness_priority", R"({"max_sequences": 2})")->decide(view, out);
    REQUIRE(out.preempt.size() == out.admit.size());
    came += out.admit.empty() ? 0 : 1;
  }
  CHECK(came > 133 - 30);
  CHECK(came < 133 + 30);
}

TEST_CASE("fairness: a decision of decodes holds until the next draw", "[unit]") {
  PaperReplica replica(100);
  replica.decode(20);
  CHECK(replica.decide(*make_batching("fairness_priority", R"({"period": 25})")).stable_iterations == 25);
  CHECK(replica.decide(*make_batching("fairness_priority", R"({"period": 0})")).stable_iterations == kStable);
}

}  // namespace test_fairness_priority
