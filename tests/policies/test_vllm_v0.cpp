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

TEST_CASE("vllm_v0: without a number the budget is the context limit, 2,048 at least", "[unit]") {
  const auto policy = make_batching("vllm_v0");
  PaperReplica replica(10'000);
  replica.wait(2000);
  replica.wait(48);
  replica.wait(1);
  Sequence seq;
  for (const std::int64_t context : {1000, 4096}) {
    replica.limits.max_context = context;
    CHECK(replica.decide(*policy).admit.size() == (context == 1000 ? 2 : 3));
    seq.prompt_tokens = std::max<std::int64_t>(2048, context);
    CHECK_FALSE(policy->reject(seq, *replica.kv, replica.limits));
    ++seq.prompt_tokens;
    CHECK(policy->reject(seq, *replica.kv, replica.limits));
  }
}

TEST_CASE("vllm_v0: slots are those of all lanes, and blocks those of the whole batch", "[unit]") {
  PaperReplica replica(10);
  replica.decode(20);  // 2 blocks
  replica.elsewhere = 1;
  for (int i = 0; i < 3; ++i) replica.wait(40);  // 3 blocks each
  const auto count = [&](const std::string& params) {
    return replica.decide(*make_batching("vllm_v0", params)).admit.size();
  };
  CHECK(count(R"({"watermark": 0})") == 2);                      // 8 - 3 - 3 = 2
  CHECK(count(R"({"watermark": 0.2})") == 2);                    // two are to be free
  CHECK(count(R"({"watermark": 0.3})") == 1);                    // three are
  CHECK(count(R"({"watermark": 0, "max_sequences": 3})") == 1);  // two run
  CHECK(count(R"({"watermark": 0, "max_sequences": 2})") == 0);
}

TEST_CASE("vllm_v0: a padded batch counts its longest, whichever comes first", "[unit]") {
  PaperReplica replica(10'000);
  replica.wait(100);
  replica.wait(1000);
  replica.wait(10);
  const auto count = [&](const std::string& tokens) {
    return replica.decide(*make_batching("vllm_v0", R"({"padded_budget": true, "max_batched_tokens": )" + tokens + "}"))
        .admit.size();
  };
  CHECK(count("1999") == 1);
  CHECK(count("2000") == 2);  // 2 x 1,000
  CHECK(count("2999") == 2);
  CHECK(count("3000") == 3);
}

TEST_CASE("vllm_v0: one that outgrew the budget does not go behind another", "[unit]") {
  PaperReplica replica(1000);
  const SeqId first = replica.wait(10);
  const SeqId big = replica.wait(400);
  replica.sequences[big.index].prefill_tokens = 700;
  replica.sequences[big.index].preemptions = 1;
  CHECK(admitted(replica.decide(*make_batching("vllm_v0", R"({"max_batched_tokens": 500})"))) ==
        std::vector<SeqId>{first});
}

TEST_CASE("vllm_v0 computes what a prompt lacks, and counts that against the budget", "[unit]") {
  PaperReplica replica(1000);
  const SeqId copied = replica.wait(400);
  replica.sequences[copied.index].ready_tokens = 390;
  replica.wait(90);
  replica.wait(1);
  const BatchDecision decision = replica.decide(*make_batching("vllm_v0", R"({"max_batched_tokens": 100})"));
  CHECK(items(decision) == Items{{0, 10}, {1, 90}});
  CHECK(decision.admit[0].reserve_tokens == 400);
}

TEST_CASE("vllm_v0: decodes go on beside those that come back from the store, if all of them have blocks", "[unit]") {
  // One decode at the end of its 2 blocks; 35 tokens come back but for the last: 3 blocks, and one to grow into.
  struct Case {
    std::int64_t blocks, generated, ready;
    const char* preemption;
    bool beside;
  };
  for (const Case& c : {Case{6, 5, 34, "swap", true}, Case{5, 5, 34, "swap", false}, Case{6, 0, 34, "swap", false},
                        Case{6, 5, 33, "swap", false}, Case{6, 5, 34, "recompute", false}}) {
    CAPTURE(c.blocks, c.generated, c.ready, c.preemption);
    PaperReplica replica(c.blocks);
    replica.decode(32);
    const SeqId back = replica.wait(30);
    Sequence& seq = replica.sequences[back.index];
    seq.generated_then = c.generated;
    seq.prefill_tokens = 35;
    seq.ready_tokens = c.ready;
    const BatchDecision decision = replica.decide(
        *make_batching("vllm_v0", std::string(R"({"watermark": 0, "preemption": ")") + c.preemption + "\"}"));
    CHECK(admitted(decision) == std::vector<SeqId>{back});
    CHECK(decision.decode_rest == c.beside);
    CHECK(decision.stable_iterations == 1);
  }
  // A prompt among them holds the decodes up.
  PaperReplica replica(100);
  replica.decode(32);
  for (const std::int64_t generated : {5, 0}) {
    Sequence& seq = replica.sequences[replica.wait(30).index];
    seq.generated_then = generated;
    seq.prefill_tokens = 35;
    seq.ready_tokens = 34;
  }
  CHECK_FALSE(replica.decide(*make_batching("vllm_v0", R"({"preemption": "swap"})")).decode_rest);
}

TEST_CASE("vllm_v0: what goes is dropped or swapped, and the answer holds unless somebody goes", "[unit]") {
  for (const auto& [says, how] : {std::pair("recompute", Preempt::recompute), std::pair("swap", Preempt::swap)}) {
    PaperReplica replica(4);
    replica.decode(32);
    replica.decode(32);
    const BatchDecision decision =
        replica.decide(*make_batching("vllm_v0", std::string(R"({"preemption": ")") + says + "\"}"));
    REQUIRE(decision.preempt.size() == 1);
    CHECK(decision.preempt[0].how == how);
    CHECK(decision.stable_iterations == 1);
    CHECK(decision.decode_rest);
  }
  PaperReplica roomy(10);
  roomy.decode(32);
  CHECK(roomy.decide(*make_batching("vllm_v0")).stable_iterations == kStable);
  // A prompt whose copy took its time runs by itself.
  roomy.prefill(40, 10);
  const BatchDecision prompt = roomy.decide(*make_batching("vllm_v0"));
  CHECK(items(prompt) == Items{{1, 30}});
  CHECK_FALSE(prompt.decode_rest);
  CHECK(prompt.stable_iterations == 1);
}

}  // namespace test_vllm_v0
