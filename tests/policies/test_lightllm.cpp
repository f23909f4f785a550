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

}  // namespace test_lightllm
