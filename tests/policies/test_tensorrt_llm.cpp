#include <algorithm>

#include "sim/base/random.hpp"
#include "tests/policies/view.hpp"

namespace test_tensorrt_llm {

using namespace orrery::policies;
using namespace orrery::policies::test;

TEST_CASE("tensorrt_llm: whole prompts beside decodes, with room for their output", "[unit]") {
  // Blocks of 16: a prompt of 100 with 28 to come takes 8. Of 8 + 8 + 3, one decode holds 4 of 50 tokens.
  PaperReplica replica(4 + 8 + 8 + 3);
  replica.decode(50);
  for (int i = 0; i < 3; ++i) replica.wait(100, 28);
  const BatchDecision decision = replica.decide(*make_batching("tensorrt_llm"));
  CHECK(admitted(decision) == std::vector<SeqId>{{1}, {2}});
  CHECK(decision.admit[0].reserve_tokens == 128);
  CHECK(items(decision) == Items{{1, 100}, {2, 100}});
  CHECK(decision.decode_rest);
  // As much as is computed now is enough for max_utilization: 7 blocks each, of 19; two fit, and 5 are left.
  CHECK(replica.decide(*make_batching("tensorrt_llm", R"({"capacity": "max_utilization"})")).admit[0].reserve_tokens ==
        100);
}

TEST_CASE("tensorrt_llm: tokens of an iteration and slots limit admission", "[unit]") {
  PaperReplica replica(10'000);
  for (int i = 0; i < 8; ++i) replica.decode(50);
  for (int i = 0; i < 3; ++i) replica.wait(100);
  // 8 decodes and 200 tokens of prompts make 208; 207 leave room for one prompt, or with chunks for 99 of another.
  CHECK(replica.decide(*make_batching("tensorrt_llm", R"({"max_num_tokens": 208})")).admit.size() == 2);
  CHECK(replica.decide(*make_batching("tensorrt_llm", R"({"max_num_tokens": 207})")).admit.size() == 1);
  CHECK(items(replica.decide(*make_batching("tensorrt_llm", R"({"max_num_tokens": 207, "chunked_context": true})"))) ==
        Items{{8, 100}, {9, 99}});
  CHECK(replica.decide(*make_batching("tensorrt_llm", R"({"max_batch_size": 9})")).admit.size() == 1);
  const BatchDecision none = replica.decide(*make_batching("tensorrt_llm", R"({"max_batch_size": 8})"));
  CHECK(none.admit.empty());
  CHECK(none.stable_iterations == kStable);
}

TEST_CASE("tensorrt_llm: a prompt that no iteration holds is rejected unless it may be split", "[unit]") {
  PaperReplica replica(10'000);
  const SeqId id = replica.wait(300);
  const auto reason = [&](const char* params) {
    return make_batching("tensorrt_llm", params)->reject(replica.sequences[id.index], *replica.kv, replica.limits);
  };
  CHECK(reason(R"({"max_num_tokens": 299})") == "prompt_exceeds_batched_tokens");
  CHECK_FALSE(reason(R"({"max_num_tokens": 300})"));
  CHECK_FALSE(reason(R"({"max_num_tokens": 299, "chunked_context": true})"));
}

TEST_CASE("tensorrt_llm: a prompt under way goes on before others start", "[unit]") {
  PaperReplica replica(10'000);
  replica.prefill(300, 100);
  replica.wait(100);
  CHECK(items(replica.decide(*make_batching("tensorrt_llm", R"({"max_num_tokens": 250, "chunked_context": true})"))) ==
        Items{{0, 200}, {1, 50}});
}

TEST_CASE("tensorrt_llm: where decodes find no block under max_utilization, the latest goes", "[unit]") {
  PaperReplica replica(8);
  replica.decode(64);  // 4 blocks, full: the next token takes a fifth
  const SeqId later = replica.decode(64);
  CHECK(preempted(replica.decide(*make_batching("tensorrt_llm", R"({"capacity": "max_utilization"})"))) ==
        std::vector<SeqId>{later});
}

TEST_CASE("tensorrt_llm: prompts wait for others, so many iterations or until there is enough", "[unit]") {
  const char* params =
      R"({"max_num_tokens": 1000, "batch_wait_timeout_iters": 20, "batch_wait_max_tokens_ratio": 0.5})";
  for (const char* capacity : {"guaranteed_no_evict", "max_utilization"}) {
    PaperReplica replica(10'000);
    std::string with = params;
    with.insert(1, std::string(R"("capacity": ")") + capacity + R"(", )");
    const auto policy = make_batching("tensorrt_llm", with);
    const bool leaps = std::string(capacity) == "guaranteed_no_evict";
    replica.clock = 100;
    replica.decode(50);
    replica.wait(100);
    const BatchDecision first = replica.decide(*policy);
    CHECK(first.admit.empty());
    CHECK(first.items.empty());
    CHECK(first.stable_iterations == (leaps ? 20 : 1));
    replica.clock = 119;
    CHECK(replica.decide(*policy).admit.empty());
    replica.clock = 120;
    CHECK(replica.decide(*policy).admit.size() == 1);
    // The next one waits anew.
    replica.clock = 130;
    CHECK(replica.decide(*policy).admit.empty());
    // One decode and 499 tokens of prompts are the half of 1000; 498 are not.
    replica.wait(398);
    CHECK(replica.decide(*policy).admit.empty());
    replica.wait(1);
    CHECK(replica.decide(*policy).admit.size() == 3);
  }
}

TEST_CASE("tensorrt_llm: nobody waits for others where nothing decodes, or without being told to", "[unit]") {
  PaperReplica idle(10'000);
  idle.wait(100);
  const char* both = R"({"batch_wait_timeout_iters": 20, "batch_wait_max_tokens_ratio": 0.9})";
  CHECK(idle.decide(*make_batching("tensorrt_llm", both)).admit.size() == 1);
  PaperReplica busy(10'000);
  busy.decode(50);
  busy.wait(100);
  CHECK(busy.decide(*make_batching("tensorrt_llm", R"({"batch_wait_max_tokens_ratio": 0.9})")).admit.size() == 1);
  // As in the engine: without a ratio any number of tokens is enough.
  CHECK(busy.decide(*make_batching("tensorrt_llm", R"({"batch_wait_timeout_iters": 20})")).admit.size() == 1);
  CHECK(busy.decide(*make_batching("tensorrt_llm", both)).admit.empty());
}

TEST_CASE("tensorrt_llm: iterations waited are counted alike however often it is asked", "[prop]") {
  orrery::sim::RandomStream random(3, "tensorrt_llm");
  for (int round = 0; round < 50; ++round) {
    const auto timeout = static_cast<std::int64_t>(random.uniform(1, 40));
    const auto policy = make_batching(
        "tensorrt_llm",
        "{\"batch_wait_max_tokens_ratio\": 1, \"batch_wait_timeout_iters\": " + std::to_string(timeout) + "}");
    PaperReplica replica(10'000);
    replica.decode(50);
    replica.wait(100);
    while (replica.decide(*policy).admit.empty())
      replica.clock = std::min(timeout, replica.clock + 1 + static_cast<std::int64_t>(random.uniform(0, 6)));
    CHECK(replica.clock == timeout);
  }
}

}  // namespace test_tensorrt_llm
