#include "tests/policies/view.hpp"

#include "sim/base/random.hpp"

namespace test_vllm_v1 {

using namespace orrery::policies;
using namespace orrery::policies::test;

TEST_CASE("vllm_v1: running first, in order, then waiting, within one budget", "[unit]") {
  PaperReplica replica(10'000);
  const auto policy = make_batching("vllm_v1", R"({"max_num_batched_tokens": 512})");
  replica.decode(100);
  replica.decode(100);
  replica.prefill(600, 400);  // 200 left
  const SeqId fresh = replica.wait(1000);
  replica.wait(50);
  const BatchDecision decision = replica.decide(*policy);
  // 512 - 2 decodes = 510; 200 for the unfinished prompt; 310 of the new one; nothing for the last.
  CHECK(items(decision) == Items{{2, 200}, {3, 310}});
  CHECK(admitted(decision) == std::vector<SeqId>{fresh});
  CHECK(decision.admit[0].reserve_tokens == 310);  // blocks of the chunk, not of the prompt
  CHECK(decision.decode_rest);
}

TEST_CASE("vllm_v1: long prompts take no more than the threshold, so that others run beside them", "[unit]") {
  PaperReplica replica(10'000);
  const auto policy =
      make_batching("vllm_v1", R"({"max_num_batched_tokens": 512, "long_prefill_token_threshold": 128})");
  replica.prefill(1000, 100);
  replica.wait(2000);
  replica.wait(100);
  replica.wait(400);
  // 128 of the first, 128 of the second, 100, and 128 of 400; 28 are left over.
  CHECK(items(replica.decide(*policy)) == Items{{0, 128}, {1, 128}, {2, 100}, {3, 128}});
}

TEST_CASE("vllm_v1: a prompt before decodes in the line may take their tokens", "[unit]") {
  // Order, not phase, decides (the V1 scheduler walks its running list): 1 for the first decode, 60 for the prompt, of
  // 64; then 3 of the 4 decodes that are left.
  PaperReplica replica(10'000);
  const auto policy = make_batching("vllm_v1", R"({"max_num_batched_tokens": 64, "long_prefill_token_threshold": 60})");
  replica.decode(100);
  replica.prefill(1000, 100);
  for (int i = 0; i < 4; ++i) replica.decode(100);
  replica.wait(10);
  const BatchDecision decision = replica.decide(*policy);
  CHECK_FALSE(decision.decode_rest);
  CHECK(items(decision) == Items{{0, 1}, {1, 60}, {2, 1}, {3, 1}, {4, 1}});
  CHECK(decision.admit.empty());
}

TEST_CASE("vllm_v1: more decodes than budget: the first ones run", "[unit]") {
  PaperReplica replica(10'000);
  const auto policy = make_batching("vllm_v1", R"({"max_num_batched_tokens": 2})");
  for (int i = 0; i < 3; ++i) replica.decode(100);
  const BatchDecision decision = replica.decide(*policy);
  CHECK_FALSE(decision.decode_rest);
  CHECK(items(decision) == Items{{0, 1}, {1, 1}});
}

TEST_CASE("vllm_v1 keeps no watermark and admits for the first chunk alone", "[unit]") {
  // 10 blocks, 2 held. A prompt of 1,600 tokens would take 100; its first chunk of 128 takes the 8 that are free.
  PaperReplica replica(10);
  const SeqId first = replica.decode(30, 2);  // 31 tokens of 32: no growth in this step
  const auto chunk = make_batching("vllm_v1", R"({"max_num_batched_tokens": 129})");
  const SeqId big = replica.wait(150);
  BatchDecision decision = replica.decide(*chunk);
  CHECK(admitted(decision) == std::vector<SeqId>{big});
  CHECK(items(decision) == Items{{1, 128}});
  // With a larger budget the chunk is 150 tokens, 10 blocks: it does not fit, and nothing is chunked to make it fit.
  decision = replica.decide(*make_batching("vllm_v1"));
  CHECK(decision.admit.empty());
  CHECK(decision.stable_iterations == kStable);
  // Nor does it fit where room for the prompt is asked for.
  CHECK(replica.decide(*make_batching("vllm_v1", R"({"max_num_batched_tokens": 129, "room_for_prompt": true})"))
            .admit.empty());
  CHECK(replica.sequences[first.index].order == 0);
}

TEST_CASE("vllm_v1: who finds no block makes the latest go, and nobody is admitted then", "[unit]") {
  // 6 blocks: two decodes hold 2 each and are at a block's edge, a prompt holds 2 and wants a third.
  PaperReplica replica(6);
  const auto policy = make_batching("vllm_v1");
  replica.decode(32);
  replica.decode(32);
  const SeqId last = replica.prefill(32, 16);
  replica.wait(1);
  BatchDecision decision = replica.decide(*policy);
  CHECK(preempted(decision) == std::vector<SeqId>{last});  // its 2 blocks serve the two decodes
  CHECK(decision.admit.empty());
  CHECK(decision.items.empty());
  CHECK(decision.decode_rest);

  // A prompt whose next chunk finds no block is itself the latest: it goes, although the decodes need nothing.
  PaperReplica other(4);
  other.decode(30, 2);
  const SeqId prompt = other.prefill(32, 0);
  other.sequences[prompt.index].prefill_tokens = 64;
  decision = other.decide(*policy);
  CHECK(preempted(decision) == std::vector<SeqId>{prompt});
}

TEST_CASE("vllm_v1: the latest is whoever was admitted last, not who arrived last", "[unit]") {
  // 6 blocks, 2 each, all at a block's edge: three need one more, and the first to arrive stands last in the line.
  PaperReplica replica(6);
  const SeqId first = replica.decode(32);
  replica.decode(32);
  replica.decode(32);
  replica.admit_last(first);
  CHECK(preempted(replica.decide(*make_batching("vllm_v1"))) == std::vector<SeqId>{first});
}

TEST_CASE("vllm_v1: preemption goes on until the step fits, tokens of the preempted are free again", "[unit]") {
  // 7 blocks, all held: one decode of 16 tokens (wants a second block), three prompts with a block or two each that
  // want more. The decode takes the last one's 2 blocks, the first prompt the other and the next one's.
  PaperReplica replica(7);
  const auto policy = make_batching("vllm_v1");
  replica.decode(16);                              // 1 block, wants 1
  const SeqId a = replica.prefill(32, 32);         // 2 blocks …
  replica.sequences[a.index].prefill_tokens = 64;  // … wants 2
  const SeqId b = replica.prefill(32, 16);
  const SeqId c = replica.prefill(32, 16);
  const BatchDecision decision = replica.decide(*policy);
  CHECK(preempted(decision) == std::vector<SeqId>{c, b});  // 4 free: 1 + 2 are taken
  CHECK(items(decision) == Items{{1, 32}});
}

TEST_CASE("vllm_v1 without chunks: a prompt waits until all of it fits the budget", "[unit]") {
  PaperReplica replica(10'000);
  const auto policy = make_batching("vllm_v1", R"({"max_num_batched_tokens": 512, "chunked_prefill": false})");
  replica.decode(10);
  replica.wait(500);
  replica.wait(12);
  CHECK(items(replica.decide(*policy)) == Items{{1, 500}});
  Sequence big;
  big.prompt_tokens = 513;
  CHECK(policy->reject(big, *replica.kv, replica.limits).has_value());
  CHECK_FALSE(make_batching("vllm_v1")->reject(big, *replica.kv, replica.limits).has_value());
}

TEST_CASE("vllm_v1: the quick way and the walk agree", "[prop]") {
  // A paused sequence in the middle changes nothing that is scheduled, but keeps the quick way from proving that
  // prompts stand last; a budget of one token more or less moves between the two. Reference: the V1 loop, written
  // plainly.
  orrery::sim::RandomStream random(9, "vllm_v1");
  for (int round = 0; round < 2'000; ++round) {
    PaperReplica replica(static_cast<std::int64_t>(60 + random.below(200)));
    const auto budget = static_cast<std::int64_t>(1 + random.below(300));
    const auto threshold = static_cast<std::int64_t>(1 + random.below(200));
    const auto policy =
        make_batching("vllm_v1", "{\"max_num_batched_tokens\": " + std::to_string(budget) +
                                     ", \"long_prefill_token_threshold\": " + std::to_string(threshold) + "}");
    for (std::uint64_t i = random.below(12); i > 0; --i) {
      const auto tokens = static_cast<std::int64_t>(1 + random.below(60));
      if (replica.kv->free_blocks() < 8) break;
      if (random.below(3) > 0) {
        replica.decode(tokens);
      } else {
        replica.prefill(tokens + 1, static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(tokens) + 1)));
      }
    }
    const BatchDecision decision = replica.decide(*policy);

    std::vector<SeqId> line = replica.running;
    std::vector<SeqId> gone;
    Items expected;
    std::int64_t left = budget;
    std::int64_t free = replica.kv->free_blocks();
    const auto held = [&](SeqId id) { return replica.kv->held_blocks(id); };
    std::size_t decodes_left_out = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const Sequence& seq = replica.sequences[line[i].index];
      const bool decodes = seq.phase == Phase::decode;
      const std::int64_t want = decodes ? 1 : std::min({seq.prefill_left(), threshold, left});
      if (left <= 0) {
        decodes_left_out += decodes ? 1 : 0;
        continue;
      }
      const std::int64_t need = std::max<std::int64_t>(0, (seq.kv_then + want + 15) / 16 - held(line[i]));
      while (need > free && i < line.size()) {
        free += held(line.back());
        gone.push_back(line.back());
        line.pop_back();
      }
      if (i >= line.size()) break;
      free -= need;
      left -= want;
      expected.emplace_back(line[i].index, want);
    }
    if (decodes_left_out == 0)
      std::erase_if(expected, [&](const auto& item) { return replica.sequences[item.first].phase == Phase::decode; });
    CHECK(decision.decode_rest == (decodes_left_out == 0));
    CHECK(items(decision) == expected);
    CHECK(preempted(decision) == gone);
  }
}

TEST_CASE("policies without a memory decide twice alike", "[unit]") {
  for (const char* name :
       {"static", "orca", "fastertransformer", "vllm_v0", "vllm_v1", "sarathi", "lightllm", "seesaw"}) {
    CAPTURE(name);
    for (const bool running : {false, true}) {
      PaperReplica replica(600);
      replica.limits.tier_tokens = 5000;
      if (running) replica.decode(100);
      for (int i = 0; i < 3; ++i) replica.sequences[replica.wait(100).index].predicted_tokens = 50;
      const auto policy = make_batching(name);
      const BatchDecision once = replica.decide(*policy), twice = replica.decide(*policy);
      CHECK(admitted(once) == admitted(twice));
      CHECK(items(once) == items(twice));
      CHECK(once.decode_rest == twice.decode_rest);
      CHECK(once.stable_iterations == twice.stable_iterations);
    }
  }
}

}  // namespace test_vllm_v1
