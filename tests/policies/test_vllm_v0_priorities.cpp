#include "tests/policies/view.hpp"

namespace test_vllm_v0_priorities {

using namespace orrery::policies;
using namespace orrery::policies::test;

namespace {

constexpr const char* kPriorities = R"({"priorities": true, "watermark": 0})";

SeqId with(PaperReplica& replica, SeqId id, int priority) {
  replica.sequences[id.index].priority = priority;
  return id;
}

}  // namespace

TEST_CASE("vllm_v0 with priorities: higher first, within one by arrival", "[unit]") {
  PaperReplica replica(5);  // blocks of 16: two prompts of 32 fit
  const auto policy = make_batching("vllm_v0", kPriorities);
  const SeqId a = replica.wait(32);
  replica.wait(32);
  const SeqId high = with(replica, replica.wait(32), 1);
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{high, a});
  PaperReplica same(5);
  const SeqId first = same.wait(32), second = same.wait(32);
  with(same, same.wait(32), 1);
  CHECK(admitted(same.decide(*make_batching("vllm_v0", R"({"watermark": 0})"))) == std::vector<SeqId>{first, second});
}

TEST_CASE("vllm_v0 with priorities: one that can never be admitted keeps nobody back", "[unit]") {
  PaperReplica replica(5);
  const auto policy = make_batching("vllm_v0", kPriorities);
  with(replica, replica.wait(200), 1);  // 13 blocks of 5
  const SeqId normal = replica.wait(32);
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{normal});
}

TEST_CASE("vllm_v0 with priorities: normal requests make room first", "[unit]") {
  // 6 blocks, 2 each, all at a block's edge: three need one more. The latest of normal priority goes.
  PaperReplica replica(6);
  const auto policy = make_batching("vllm_v0", kPriorities);
  replica.decode(32);
  const SeqId victim = replica.decode(32);
  with(replica, replica.decode(32), 1);
  CHECK(preempted(replica.decide(*policy)) == std::vector<SeqId>{victim});
  replica.admit_last(replica.running.front());  // by arrival all the same
  CHECK(preempted(replica.decide(*policy)) == std::vector<SeqId>{victim});
  CHECK(preempted(replica.decide(*make_batching("vllm_v0"))) == std::vector<SeqId>{replica.running.back()});
}

TEST_CASE("a queue by a key knows whoever comes in at the front", "[unit]") {
  // A migrated request goes to the head of the queue, its order the latest, in front of one that the policy has seen
  // waiting already.
  for (const auto& [name, params] : {std::pair("vllm_v0", kPriorities), std::pair("priority", "{}")}) {
    PaperReplica replica(5);
    const auto policy = make_batching(name, params);
    const SeqId running = replica.decode(60, 4);  // 63 tokens: 4 blocks
    replica.wait(32);
    CHECK(admitted(replica.decide(*policy)).empty());
    const SeqId migrated = replica.wait(10);
    replica.waiting.pop_back();
    replica.waiting.push_front(migrated);
    replica.sequences[migrated.index].priority = 1;
    CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{migrated});
    CHECK(replica.running.front() == running);
  }
}

TEST_CASE("vllm_v0 with priorities: what the watermark leaves of an empty cache is the most that fits", "[unit]") {
  // Half of 10 blocks is to be free. 80 tokens are 5 blocks, and wait; 81 are 6, and are passed over for ever.
  for (const std::int64_t large : {80, 81}) {
    PaperReplica replica(10);
    const auto policy = make_batching("vllm_v0", R"({"priorities": true, "watermark": 0.5})");
    replica.decode(20);  // 2 blocks: 3 may go
    with(replica, replica.wait(large), 1);
    const SeqId normal = replica.wait(32);
    CHECK(admitted(replica.decide(*policy)) == (large == 80 ? std::vector<SeqId>{} : std::vector<SeqId>{normal}));
  }
}

TEST_CASE("vllm_v0 with priorities: who was preempted, by the policy or by others, is in the queue again", "[unit]") {
  PaperReplica replica(6);
  const auto policy = make_batching("vllm_v0", kPriorities);
  replica.decode(32);
  replica.decode(32);
  const SeqId last = replica.decode(32);
  const SeqId low = with(replica, replica.wait(16), -1);
  REQUIRE(preempted(replica.decide(*policy)) == std::vector<SeqId>{last});
  replica.stop(last);
  replica.end({0});
  // 4 blocks are free: 3 for its 33 tokens, one for the other.
  BatchDecision decision = replica.decide(*policy);
  CHECK(admitted(decision) == std::vector<SeqId>{last, low});
  // On paper nothing of that was done. Of whom it hears that he came back, he is admitted.
  CHECK(replica.decide(*policy).admit.empty());
  policy->returned(low);
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{low});
}

TEST_CASE("vllm_v0 with priorities: who finds no slot, tokens or blocks now is asked again", "[unit]") {
  for (const char* params : {R"({"priorities": true, "max_sequences": 1})",
                             R"({"priorities": true, "max_batched_tokens": 31})", kPriorities}) {
    CAPTURE(params);
    PaperReplica replica(5);
    const auto policy = make_batching("vllm_v0", params);
    replica.decode(60);  // 4 blocks of 5
    const SeqId waits = replica.wait(32);
    CHECK(replica.decide(*policy).admit.empty());
    replica.end({0});
    replica.sequences[waits.index].prefill_tokens = 31;
    CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{waits});
  }
}

}  // namespace test_vllm_v0_priorities
