#include "tests/policies/view.hpp"

namespace test_vllm_v0 {

using namespace orrery::policies;
using namespace orrery::policies::test;

TEST_CASE("vllm_v0 runs prompts alone, before decodes", "[unit]") {
  PaperReplica replica(1000);
  const auto policy = make_batching("vllm_v0");
  replica.decode(100);
  const SeqId a = replica.wait(300);
  const SeqId b = replica.wait(200);
  const BatchDecision decision = replica.decide(*policy);
  CHECK(admitted(decision) == std::vector<SeqId>{a, b});
  CHECK(items(decision) == Items{{1, 300}, {2, 200}});
  CHECK_FALSE(decision.decode_rest);
  CHECK(decision.admit[0].reserve_tokens == 300);  // the prompt only; it grows later
}

TEST_CASE("vllm_v0 decodes when no prompt fits", "[unit]") {
  PaperReplica replica(1000);
  const auto policy = make_batching("vllm_v0", R"({"max_sequences": 1})");
  replica.decode(100);
  replica.wait(10);
  const BatchDecision decision = replica.decide(*policy);
  CHECK(decision.admit.empty());
  CHECK(decision.decode_rest);
}

TEST_CASE("vllm_v0 keeps a watermark of free blocks", "[unit]") {
  // 100 blocks, watermark 10 %: a prompt of 90 blocks leaves 10 and is admitted, one of 91 is not.
  const auto policy = make_batching("vllm_v0", R"({"watermark": 0.1})");
  PaperReplica fits(100);
  fits.wait(90 * 16);
  CHECK(fits.decide(*policy).admit.size() == 1);
  PaperReplica over(100);
  over.wait(90 * 16 + 1);
  CHECK(over.decide(*policy).admit.empty());
}

TEST_CASE("vllm_v0 stops at its token budget", "[unit]") {
  PaperReplica replica(10'000);
  replica.wait(1000);
  replica.wait(100);
  replica.wait(1000);
  replica.wait(1);
  // 1000 + 100 + 1000 = 2100; the fourth would make 2101.
  CHECK(replica.decide(*make_batching("vllm_v0", R"({"max_batched_tokens": 2100})")).admit.size() == 3);
  // Padded: 1 x 1000, 2 x 1000, 3 x 1000 > 2100.
  CHECK(replica.decide(*make_batching("vllm_v0", R"({"max_batched_tokens": 2100, "padded_budget": true})"))
            .admit.size() == 2);
  // The default is the context limit.
  CHECK(replica.decide(*make_batching("vllm_v0")).admit.size() == 4);
}

TEST_CASE("vllm_v0 preempts the latest arrival when a decode finds no block", "[unit]") {
  PaperReplica replica(6);
  const auto policy = make_batching("vllm_v0");
  replica.decode(32);                     // 2 blocks, full: needs a third
  replica.decode(32);                     // the same
  const SeqId last = replica.decode(20);  // 2 blocks, room for more
  REQUIRE(replica.kv->free_blocks() == 0);
  const BatchDecision decision = replica.decide(*policy);
  // Two blocks are needed and none is free; the last gives back two.
  CHECK(preempted(decision) == std::vector<SeqId>{last});
  CHECK(decision.decode_rest);
}

TEST_CASE("a preempted sequence may preempt itself last of all", "[unit]") {
  PaperReplica replica(2);
  const SeqId only = replica.decode(32);
  const BatchDecision decision = replica.decide(*make_batching("vllm_v0"));
  CHECK(preempted(decision) == std::vector<SeqId>{only});
}

TEST_CASE("vllm_v0 takes a recomputed sequence that outgrew the budget, alone", "[unit]") {
  PaperReplica replica(1000);
  const auto policy = make_batching("vllm_v0", R"({"max_batched_tokens": 500})");
  const SeqId big = replica.wait(400);
  replica.sequences[big.index].prefill_tokens = 700;  // prompt and what it had generated
  replica.wait(10);
  CHECK(replica.decide(*policy).admit.empty());
  replica.sequences[big.index].preemptions = 1;
  const BatchDecision decision = replica.decide(*policy);
  CHECK(admitted(decision) == std::vector<SeqId>{big});
}

TEST_CASE("vllm_v0 refuses a prompt past its budget at arrival", "[unit]") {
  PaperReplica replica(1000);
  const auto policy = make_batching("vllm_v0", R"({"max_batched_tokens": 500})");
  Sequence seq;
  seq.prompt_tokens = 501;
  CHECK(*policy->reject(seq, *replica.kv, replica.limits) == "prompt_exceeds_batched_tokens");
  seq.prompt_tokens = 500;
  CHECK_FALSE(policy->reject(seq, *replica.kv, replica.limits).has_value());
}

}  // namespace test_vllm_v0
