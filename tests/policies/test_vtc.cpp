#include "tests/policies/view.hpp"

namespace test_vtc {

using namespace orrery::policies;
using namespace orrery::policies::test;

namespace {

SeqId from(PaperReplica& replica, int tenant, std::int64_t prompt) {
  const SeqId id = replica.wait(prompt);
  replica.sequences[id.index].tenant = tenant;
  return id;
}

/// Admits on paper: prompts are done at once, decodes begin.
void apply(PaperReplica& replica, const BatchDecision& decision) {
  for (const Admission& admission : decision.admit) {
    Sequence& seq = replica.sequences[admission.seq.index];
    REQUIRE(replica.kv->reserve(admission.seq, seq, seq.prefill_tokens));
    seq.phase = Phase::decode;
    seq.prefilled = seq.kv_then = seq.prefill_tokens;
    seq.generated_then = 1;
    std::erase(replica.waiting, admission.seq);
    replica.running.push_back(admission.seq);
    ++replica.decoding;
  }
}

void end(PaperReplica& replica, SeqId id) {
  Sequence& seq = replica.sequences[id.index];
  replica.kv->release(id, seq, seq.kv_then, Leave::drop);
  seq.order = -1;
  std::erase(replica.running, id);
  --replica.decoding;
}

}  // namespace

TEST_CASE("vtc: tenants take turns by what they were served", "[unit]") {
  PaperReplica replica(10'000);
  const auto policy = make_batching("vtc", R"({"max_sequences": 4})");
  const SeqId a1 = from(replica, 1, 100);
  const SeqId a2 = from(replica, 1, 100);
  const SeqId a3 = from(replica, 1, 100);
  const SeqId b1 = from(replica, 2, 250);
  from(replica, 2, 250);
  // Counters: 0 0 -> a1 (100, 0) -> b1 (100, 250) -> a2 (200, 250) -> a3 (300, 250): b's second finds no slot.
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{a1, b1, a2, a3});
}

TEST_CASE("vtc: generated tokens count, those of requests that have ended too", "[unit]") {
  PaperReplica replica(10'000);
  const auto policy = make_batching("vtc", R"({"max_sequences": 1})");
  const SeqId a1 = from(replica, 1, 100);
  replica.sequences[a1.index].output_tokens = 200;
  const SeqId b1 = from(replica, 2, 100);
  const SeqId b2 = from(replica, 2, 10);
  BatchDecision decision = replica.decide(*policy);
  CHECK(admitted(decision) == std::vector<SeqId>{a1});
  apply(replica, decision);
  from(replica, 1, 10);
  end(replica, a1);  // 100 + 2 x 200 = 500 for tenant 1
  decision = replica.decide(*policy);
  CHECK(admitted(decision) == std::vector<SeqId>{b1});
  apply(replica, decision);
  end(replica, b1);  // 100 + 2 x 10 = 120 for tenant 2
  decision = replica.decide(*policy);
  CHECK(admitted(decision) == std::vector<SeqId>{b2});
}

TEST_CASE("vtc: who was idle is lifted to the least of those that wait", "[unit]") {
  PaperReplica replica(10'000);
  const auto policy = make_batching("vtc", R"({"max_sequences": 2})");
  const SeqId a1 = from(replica, 1, 1000);
  const SeqId a2 = from(replica, 1, 1000);
  const SeqId a3 = from(replica, 1, 100);
  from(replica, 1, 100);
  BatchDecision decision = replica.decide(*policy);
  CHECK(admitted(decision) == std::vector<SeqId>{a1, a2});
  apply(replica, decision);
  // Two prompts of 1,000 and twice 10 tokens of output: tenant 1 stands at 2,040 when tenant 2 comes and is lifted
  // there. A tie, so tenant 1 first (the lower number), then tenant 2, with 2,040 to 2,140.
  const SeqId b1 = from(replica, 2, 50);
  const SeqId b2 = from(replica, 2, 50);
  end(replica, a1);
  end(replica, a2);
  decision = replica.decide(*policy);
  REQUIRE(decision.admit.size() == 2);
  CHECK(admitted(decision) == std::vector<SeqId>{a3, b1});
  CHECK(b2.index == 5);
}

TEST_CASE("vtc: the answer holds until the counters cross", "[unit]") {
  PaperReplica replica(8);
  const auto policy = make_batching("vtc");
  const SeqId a1 = from(replica, 1, 60);
  BatchDecision decision = replica.decide(*policy);
  apply(replica, decision);                // tenant 1: 60, 4 blocks
  const SeqId a2 = from(replica, 1, 100);  // 7 blocks: does not fit
  from(replica, 2, 80);                    // 5 blocks: nor would this
  decision = replica.decide(*policy);
  CHECK(decision.admit.empty());
  // Tenant 1 has 60 + 2, and tenant 2 was lifted there. It is behind from the next step on.
  CHECK(decision.stable_iterations == 1);
  CHECK(replica.sequences[a1.index].order != replica.sequences[a2.index].order);
}

TEST_CASE("vtc: prompts and outputs weigh as they are told to", "[unit]") {
  // 100 in and 30 out for tenant 1, 150 in and 10 out for tenant 2; then the lower goes first, of equals tenant 1.
  const auto next = [](int input, int output) {
    PaperReplica replica(10'000);
    const auto policy = make_batching("vtc", R"({"max_sequences": 2, "input_weight": )" + std::to_string(input) +
                                                 R"(, "output_weight": )" + std::to_string(output) + "}");
    const SeqId a = from(replica, 1, 100), b = from(replica, 2, 150);
    from(replica, 1, 10);
    from(replica, 2, 10);
    replica.sequences[a.index].output_tokens = 30;
    apply(replica, replica.decide(*policy));
    REQUIRE(replica.running == std::vector<SeqId>{a, b});
    end(replica, a);
    end(replica, b);
    const BatchDecision decision = replica.decide(*policy);
    return replica.sequences[decision.admit.at(0).seq.index].tenant;
  };
  CHECK(next(1, 0) == 1);  // 100, 150
  CHECK(next(1, 2) == 1);  // 160, 170
  CHECK(next(1, 3) == 2);  // 190, 180
  CHECK(next(2, 5) == 1);  // 350 each
  CHECK(next(2, 6) == 2);  // 380, 360
}

TEST_CASE("vtc: every token counts once, however often it is asked", "[unit]") {
  // Tenant 1 has 100 in, tenant 2 160 and one token out: 162. At two a token tenant 1 is past it with 32 out.
  for (const std::int64_t generated : {30, 31, 32}) {
    PaperReplica replica(10'000);
    const auto policy = make_batching("vtc", R"({"max_sequences": 2})");
    const SeqId a = from(replica, 1, 100), b = from(replica, 2, 160);
    replica.sequences[b.index].output_tokens = 1;
    from(replica, 1, 10);
    from(replica, 2, 10);
    apply(replica, replica.decide(*policy));
    for (const std::int64_t tokens : {std::int64_t{10}, std::int64_t{10}, generated, generated}) {
      replica.sequences[a.index].generated_then = tokens;
      CHECK(replica.decide(*policy).admit.empty());  // no slot is free
    }
    end(replica, b);
    const BatchDecision decision = replica.decide(*policy);
    REQUIRE(decision.admit.size() == 1);
    CHECK(replica.sequences[decision.admit[0].seq.index].tenant == (generated == 32 ? 2 : 1));
  }
}

TEST_CASE("vtc: the answer holds until a tenant that is served more slowly falls behind", "[unit]") {
  // Tenant 1 stands at 10 with one decode, tenant 2 at 60 with none; both wait for 12 of 12 blocks, 11 of which are
  // free. 50 tokens' worth lie between them; two a step are 25 steps.
  PaperReplica replica(12);
  const auto policy = make_batching("vtc");
  const SeqId a = from(replica, 1, 10);
  from(replica, 1, 180);
  const SeqId b = from(replica, 2, 60);
  replica.sequences[b.index].output_tokens = 1;
  from(replica, 2, 180);
  BatchDecision decision = replica.decide(*policy);
  REQUIRE(admitted(decision) == std::vector<SeqId>{a, b});
  apply(replica, decision);
  end(replica, b);
  decision = replica.decide(*policy);
  // Each first token counts two: 12 and 62.
  CHECK(decision.admit.empty());
  CHECK(decision.stable_iterations == 25);
  replica.sequences[a.index].generated_then = 2;  // 14: 48 apart
  CHECK(replica.decide(*policy).stable_iterations == 24);
}

TEST_CASE("vtc: tenants cross only if the first is served faster than the other", "[unit]") {
  // 100 against 110 with a decode each; 100 against 90 + 60 with one against two. What waits has no room.
  for (const bool two : {false, true}) {
    PaperReplica replica(20);
    const auto policy = make_batching("vtc");
    from(replica, 1, 100);
    from(replica, 1, 180);
    from(replica, 2, two ? 90 : 110);
    if (two) from(replica, 2, 60);
    from(replica, 2, 180);
    const BatchDecision decision = replica.decide(*policy);
    REQUIRE(decision.admit.size() == (two ? 3 : 2));
    apply(replica, decision);
    CHECK(replica.decide(*policy).stable_iterations == kStable);
  }
  // 20 + 2 x 2 = 24 against 38 + 2 = 40: 16 apart; four a step against two. Where no slot is free nobody could come,
  // whoever is first.
  for (const auto& [slots, steps] : {std::pair("4", std::int64_t{8}), std::pair("3", kStable)}) {
    PaperReplica replica(12);
    const auto policy = make_batching("vtc", std::string(R"({"max_sequences": )") + slots + "}");
    for (int i = 0; i < 2; ++i) from(replica, 1, 10);
    from(replica, 1, 180);
    from(replica, 2, 38);
    from(replica, 2, 180);
    const BatchDecision decision = replica.decide(*policy);
    REQUIRE(decision.admit.size() == 3);
    apply(replica, decision);
    CHECK(replica.decide(*policy).stable_iterations == steps);
  }
}

TEST_CASE("vtc: who comes when nobody waits is lifted to whoever was admitted last", "[unit]") {
  // Tenant 1 stands at 500. Tenant 2 comes when the queue is empty: it has 500 too, and then 600, past tenant 1's 500.
  PaperReplica replica(10'000);
  const auto policy = make_batching("vtc", R"({"max_sequences": 2, "output_weight": 0})");
  const SeqId a = from(replica, 1, 500);
  apply(replica, replica.decide(*policy));
  const SeqId b = from(replica, 2, 100);
  BatchDecision decision = replica.decide(*policy);
  REQUIRE(admitted(decision) == std::vector<SeqId>{b});
  apply(replica, decision);
  end(replica, a);
  end(replica, b);
  const SeqId late = from(replica, 2, 10);
  const SeqId next = from(replica, 1, 10);
  // Both are lifted to tenant 2, the last that was admitted, at 600: a tie, for the lower number.
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{next, late});
}

TEST_CASE("vtc: a counter is never lowered", "[unit]") {
  // Tenant 1 has 500 when it comes back, and those that wait, and were admitted last, 10.
  PaperReplica replica(10'000);
  const auto policy = make_batching("vtc", R"({"max_sequences": 1, "output_weight": 0})");
  const SeqId big = from(replica, 1, 500);
  const SeqId small = from(replica, 2, 10);
  BatchDecision decision = replica.decide(*policy);
  REQUIRE(admitted(decision) == std::vector<SeqId>{big});
  apply(replica, decision);
  end(replica, big);
  decision = replica.decide(*policy);
  REQUIRE(admitted(decision) == std::vector<SeqId>{small});  // tenant 2 stands at 10 then, the last admitted
  apply(replica, decision);
  end(replica, small);
  const SeqId low = from(replica, 2, 5);
  from(replica, 1, 5);  // 500, not 10
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{low});
}

TEST_CASE("vtc: whoever never fits keeps nobody of its tenant back, and costs nothing", "[unit]") {
  PaperReplica replica(10);
  const auto policy = make_batching("vtc");
  from(replica, 1, 200);  // 13 blocks
  const SeqId next = from(replica, 1, 20);
  const SeqId other = from(replica, 2, 10);
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{next, other});
}

TEST_CASE("vtc: who comes back stands by its arrival again, and its prompt is not charged again", "[unit]") {
  // 5 + 2 + 2 blocks of 9, all full: the last goes. Tenant 1 stands at 80, tenant 2 at 64, and after a second charge
  // would at 97.
  PaperReplica replica(9);
  const auto policy = make_batching("vtc", R"({"output_weight": 0})");
  const SeqId a = from(replica, 2, 32), b = from(replica, 2, 32), c = from(replica, 1, 80);
  BatchDecision decision = replica.decide(*policy);
  REQUIRE(admitted(decision) == std::vector<SeqId>{c, a, b});
  apply(replica, decision);
  const SeqId newer = from(replica, 2, 10);
  decision = replica.decide(*policy);
  REQUIRE(preempted(decision) == std::vector<SeqId>{b});
  CHECK(decision.admit.empty());
  replica.stop(b);
  end(replica, c);
  const SeqId other = from(replica, 1, 10);
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{b, newer, other});
}

TEST_CASE("vtc: tenants of whom nobody runs do not cross", "[unit]") {
  // Of three tenants two have ended with 30 and 80, and wait; a third has the decode that leaves them no room.
  PaperReplica replica(12);
  const auto policy = make_batching("vtc");
  const SeqId a = from(replica, 1, 10);
  from(replica, 1, 180);
  const SeqId b = from(replica, 2, 60);
  from(replica, 2, 180);
  const SeqId c = from(replica, 3, 20);
  const BatchDecision decision = replica.decide(*policy);
  REQUIRE(admitted(decision) == std::vector<SeqId>{a, b, c});
  apply(replica, decision);
  end(replica, a);
  end(replica, b);
  CHECK(replica.decide(*policy).admit.empty());
  CHECK(replica.decide(*policy).stable_iterations == kStable);
}

TEST_CASE("vtc: whoever was preempted is counted once when it runs again", "[unit]") {
  // Tenant 1 has 10 in and 10 out when it goes back, then 8 more: 28; tenant 2 has 30 in and 1 out: 31.
  PaperReplica replica(100);
  const auto policy = make_batching("vtc", R"({"max_sequences": 2, "output_weight": 1})");
  const SeqId a = from(replica, 1, 10), b = from(replica, 2, 30);
  replica.sequences[b.index].output_tokens = 1;
  const SeqId next = from(replica, 1, 10);
  from(replica, 2, 10);
  apply(replica, replica.decide(*policy));
  REQUIRE(replica.running == std::vector<SeqId>{a, b});
  replica.sequences[a.index].generated_then = 10;
  replica.stop(a);
  policy->returned(a);
  const BatchDecision again = replica.decide(*policy);
  REQUIRE(admitted(again) == std::vector<SeqId>{a});
  apply(replica, again);
  replica.sequences[a.index].generated_then = 18;
  CHECK(replica.decide(*policy).admit.empty());
  end(replica, b);
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{next});
}

}  // namespace test_vtc
