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

}  // namespace test_vtc
