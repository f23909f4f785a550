#include "tests/policies/view.hpp"

namespace test_lightllm {

using namespace orrery::policies;
using namespace orrery::policies::test;

namespace {

SeqId expect(PaperReplica& replica, SeqId id, std::int64_t predicted) {
  replica.sequences[id.index].predicted_tokens = predicted;
  return id;
}

}  // namespace

TEST_CASE("lightllm admits up to the predicted peak", "[unit]") {
  // 40 blocks of 16 are 640 tokens. Prompts of 100 with 100 to come.
  // One: 200. Two: 2 x 200 = 400. Three: 600. Each may waste 15 of its last block: 640 - 3 x 15 = 595 < 600.
  PaperReplica replica(40);
  for (int i = 0; i < 4; ++i) expect(replica, replica.wait(100), 100);
  const auto policy = make_batching("lightllm");
  CHECK(replica.decide(*policy).admit.size() == 2);
  // With 1 block more, 656 - 45 = 611: three.
  PaperReplica more(41);
  for (int i = 0; i < 4; ++i) expect(more, more.wait(100), 100);
  CHECK(more.decide(*policy).admit.size() == 3);
}

TEST_CASE("lightllm: who ends early makes room for who ends late", "[unit]") {
  // The peak of (300 left, 100 held) and (20 left, 100 held): at 20 steps 2 x 20 + 200 = 240, at 300 steps 400. Their
  // final sizes together would be 520.
  PaperReplica replica(27);  // 432 tokens, 402 of them sure for two
  expect(replica, replica.wait(100), 300);
  expect(replica, replica.wait(100), 20);
  CHECK(replica.decide(*make_batching("lightllm")).admit.size() == 2);
}

TEST_CASE("lightllm: the answer holds as long as the peak is too high", "[unit]") {
  PaperReplica replica(40);
  expect(replica, replica.decode(100), 100);  // 100 held, 99 left
  expect(replica, replica.decode(100), 100);
  expect(replica, replica.wait(100), 150);
  // By left: 150 -> 150 + 100 = 250; 99 -> 2 x 99 + 200 = 398; 99 -> 3 x 99 + 300 = 597. 640 - 45 = 595: 2 short.
  const BatchDecision decision = replica.decide(*make_batching("lightllm"));
  CHECK(decision.admit.empty());
  CHECK(decision.stable_iterations == 2);
}

TEST_CASE("lightllm: prompts run alone, and a bound stands in for a prediction", "[unit]") {
  PaperReplica replica(1000);
  replica.decode(100);
  replica.wait(100);
  BatchDecision decision = replica.decide(*make_batching("lightllm", R"({"max_new_tokens": 10})"));
  CHECK_FALSE(decision.decode_rest);
  CHECK(items(decision) == Items{{1, 100}});
  // At the context limit of 4,096 each, 2 x 4,096 tokens would not fit.
  PaperReplica tight(300);
  tight.decode(100);
  tight.wait(100);
  CHECK(tight.decide(*make_batching("lightllm")).admit.empty());
  CHECK(tight.decide(*make_batching("lightllm", R"({"max_new_tokens": 10})")).admit.size() == 1);
}

TEST_CASE("lightllm: the peak counts whoever ends latest first, down to the last token", "[unit]") {
  // Two run: 200 held with 20 left, 100 held with 50 left; 60 more with 50 left. Latest first: 50 + 100 = 150;
  // 2 x 50 + 160 = 260; 3 x 20 + 360 = 420: the peak. Up to 15 tokens of each last block are wasted: 30 blocks are
  // 480 - 45 = 435, 29 are 464 - 45 = 419.
  for (const std::int64_t blocks : {29, 30}) {
    PaperReplica replica(blocks);
    expect(replica, replica.decode(200, 1), 21);
    expect(replica, replica.decode(100, 1), 51);
    expect(replica, replica.wait(60), 50);
    const BatchDecision decision = replica.decide(*make_batching("lightllm"));
    CHECK(decision.admit.size() == (blocks == 30 ? 1 : 0));
    // One token too many, and the peak falls by at most one a step.
    if (blocks == 29) CHECK(decision.stable_iterations == 1);
  }
}

TEST_CASE("lightllm: what is left is at least a token, and no more than context and bound allow", "[unit]") {
  // One that outlived its prediction of 10 counts as one step short of its end: 100 + 29 held, 1 left. With 50 more of
  // 10 left: 10 + 50 = 60, then 2 x 1 + 179 = 181: 13 blocks less 2 x 15 are 178, 14 are 194.
  for (const std::int64_t blocks : {13, 14}) {
    PaperReplica replica(blocks);
    expect(replica, replica.decode(100, 30), 10);
    expect(replica, replica.wait(50), 10);
    CHECK(replica.decide(*make_batching("lightllm")).admit.size() == (blocks == 14 ? 1 : 0));
  }
  // A prediction of 500 is cut to the bound of 40, or to what a context of 90 leaves behind a prompt of 50:
  // 40 + 50 = 90; 2 x 40 + 100 = 180.
  for (const std::int64_t blocks : {13, 14}) {
    PaperReplica replica(blocks);
    expect(replica, replica.decode(50, 1), 500);
    replica.sequences[0].generated_then = 0;
    expect(replica, replica.wait(50), 500);
    CHECK(replica.decide(*make_batching("lightllm", R"({"max_new_tokens": 40})")).admit.size() ==
          (blocks == 14 ? 1 : 0));
    replica.limits.max_context = 90;
    CHECK(replica.decide(*make_batching("lightllm")).admit.size() == (blocks == 14 ? 1 : 0));
  }
}

TEST_CASE("lightllm: branches hold and grow as many times", "[unit]") {
  // Two branches of 32 with 10 left, and one of 40 with 20: 20 + 40 = 60; 10 x 3 + 104 = 134. 10 blocks are 160 - 30 =
  // 130, 4 short; 11 are 146.
  for (const std::int64_t blocks : {10, 11}) {
    PaperReplica replica(blocks);
    const SeqId twice = expect(replica, replica.decode(32, 1), 11);
    replica.branch(twice, 2);
    expect(replica, replica.wait(40), 20);
    const BatchDecision decision = replica.decide(*make_batching("lightllm"));
    CHECK(decision.admit.size() == (blocks == 11 ? 1 : 0));
    if (blocks == 10) CHECK(decision.stable_iterations == 4);
  }
  // Who waits has two branches of 40 with 20 left, beside 32 with 10: 2 x 20 + 80 = 120; 3 x 10 + 112 = 142. 9 blocks
  // are 144 - 30 = 114: 28 short, of which two go a step.
  PaperReplica replica(9);
  expect(replica, replica.decode(32, 1), 11);
  const SeqId twice = expect(replica, replica.wait(40), 20);
  replica.sequences[twice.index].branches = 2;
  const BatchDecision decision = replica.decide(*make_batching("lightllm"));
  CHECK(decision.admit.empty());
  CHECK(decision.stable_iterations == 14);
}

TEST_CASE("lightllm: a prompt in the making counts whole, and prompts go alone", "[unit]") {
  PaperReplica replica(40);
  expect(replica, replica.decode(100, 1), 51);
  replica.prefill(200, 150);
  expect(replica, replica.wait(10), 10);
  const BatchDecision decision = replica.decide(*make_batching("lightllm"));
  CHECK(items(decision) == Items{{1, 50}});  // first of all what has begun
  CHECK_FALSE(decision.decode_rest);
  CHECK(decision.admit.empty());
  CHECK(decision.stable_iterations == 1);
}

TEST_CASE("lightllm: who is paused counts the tokens that it is to prefill, though they are not there yet", "[unit]") {
  // 100 are to be prefilled of which 20 are there, 10 left; beside 50 with 10 left: 10 + 100, 20 + 150 = 170 of 12
  // blocks less 30 = 162, or of 13, 178.
  for (const std::int64_t blocks : {12, 13}) {
    PaperReplica replica(blocks);
    const SeqId paused = expect(replica, replica.decode(20, 1), 10);
    Sequence& seq = replica.sequences[paused.index];
    seq.prompt_tokens = seq.prefill_tokens = 100;
    seq.generated_then = 0;
    replica.pause(paused);
    expect(replica, replica.wait(50), 10);
    CHECK(replica.decide(*make_batching("lightllm")).admit.size() == (blocks == 13 ? 1 : 0));
  }
}

TEST_CASE("lightllm: slots, and tokens of an iteration of prompts", "[unit]") {
  const auto count = [](const std::string& params, std::int64_t first = 60) {
    PaperReplica replica(1000);
    expect(replica, replica.decode(20, 1), 10);
    expect(replica, replica.wait(first), 10);
    expect(replica, replica.wait(40), 10);
    expect(replica, replica.wait(1), 10);
    return replica.decide(*make_batching("lightllm", params)).admit.size();
  };
  CHECK(count("{}") == 3);
  CHECK(count(R"({"max_sequences": 1})") == 0);
  CHECK(count(R"({"max_sequences": 2})") == 1);
  CHECK(count(R"({"max_sequences": 3})") == 2);
  CHECK(count(R"({"max_batched_tokens": 100})") == 2);
  CHECK(count(R"({"max_batched_tokens": 101})") == 3);
  CHECK(count(R"({"max_batched_tokens": 99})") == 1);
  CHECK(count(R"({"max_batched_tokens": 99})", 5000) == 1);  // longer than all: alone
}

TEST_CASE("lightllm: alone a sequence has what there is, in blocks", "[unit]") {
  // 10 blocks. Its bound of 4,096 tokens would never fit, its prompt does, or lacks one block.
  for (const std::int64_t prompt : {160, 161}) {
    PaperReplica replica(10);
    replica.wait(prompt);
    CHECK(replica.decide(*make_batching("lightllm")).admit.size() == (prompt == 160 ? 1 : 0));
  }
}

TEST_CASE("lightllm: blocks that decodes are about to take are not free for a prompt", "[unit]") {
  // Tokens are enough: 32 + 80 + 2 of 160 - 30. Of 10 blocks 2 are held; 5 for the prompt are left if decodes take 3,
  // and not if they take 4, which stays so until somebody leaves.
  PaperReplica replica(10);
  expect(replica, replica.decode(32, 1), 2);
  expect(replica, replica.wait(80), 1);
  BatchView view = replica.view();
  view.growth_blocks = 3;
  BatchDecision out;
  make_batching("lightllm")->decide(view, out);
  CHECK(out.admit.size() == 1);
  view.growth_blocks = 4;
  out.clear();
  make_batching("lightllm")->decide(view, out);
  CHECK(out.admit.empty());
  CHECK(out.stable_iterations == kStable);
}

TEST_CASE("lightllm: where blocks run out all the same, the latest goes", "[unit]") {
  PaperReplica replica(4);
  replica.decode(32);
  const SeqId last = replica.decode(32);
  const BatchDecision out = replica.decide(*make_batching("lightllm"));
  CHECK(preempted(out) == std::vector<SeqId>{last});
  CHECK(out.stable_iterations == 1);
  CHECK(out.decode_rest);
  PaperReplica alone(4);
  alone.decode(20);
  CHECK(alone.decide(*make_batching("lightllm")).stable_iterations == kStable);
}

TEST_CASE("policies that add up all that run refuse a pipeline with several batches in flight", "[unit]") {
  for (const auto& [name, says] :
       {std::pair("lightllm", "lightllm adds up what all that run will hold, so it"),
        std::pair("batchllm", "batchllm adds up what all that run will hold, so it"),
        std::pair("vtc", "vtc counts what all that run were served, so it"),
        std::pair("layered_prefill", "layered_prefill has one wave for the whole replica, so it")}) {
    ReplicaLimits limits;
    CHECK_FALSE(make_batching(name)->obstacle(limits));
    limits.batches = 2;
    CHECK(make_batching(name)->obstacle(limits).value().starts_with(says));
  }
  ReplicaLimits limits{.batches = 2};
  CHECK_FALSE(make_batching("vllm_v1")->obstacle(limits));
}

}  // namespace test_lightllm
