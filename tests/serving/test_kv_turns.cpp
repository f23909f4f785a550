// Conversations that go on from the copy of their last turn: whole runs, and the store by hand.
#include <fmt/format.h>

#include "policies/kvcache/tiered_store.hpp"
#include "tests/experiments/support.hpp"
#include "tests/serving/run_config.hpp"

namespace test_kv_turns {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using policies::Text;
using policies::TieredStore;

namespace {

constexpr std::int64_t kConversations = 12, kTurns = 4;

/// Conversations side by side, a turn every 20 s: 150 tokens of question and 100 of answer more each time.
std::string trace() {
  std::string text = "arrived_s,prompt_tokens,output_tokens,session\n";
  for (std::int64_t turn = 0; turn < kTurns; ++turn)
    for (std::int64_t c = 0; c < kConversations; ++c)
      text += fmt::format("{},{},100,s{}\n", static_cast<double>(20 * turn) + 0.25 * static_cast<double>(c),
                          250 * turn + 150 + c, c);
  return text;
}

std::string config(const fs::path& path, const std::string& batching, const std::string& cache,
                   const std::string& tiers, std::int64_t blocks = 400) {
  return R"({"kind": "experiment", "version": 1, "system": "serving",
    "machine": {"devices": [{"part": "a10g"}]}, "model": {"config": "catalog:llama-3-8b"},
    "workload": {"trace": {"format": "orrery_csv", "path": ")" +
         path.string() + R"("}}, "policies": {"batching": )" + batching + R"(, "kvcache": {"policy": ")" + cache +
         R"("}}, "replica": {"max_context": 4096, "kv_blocks": )" + std::to_string(blocks) + R"(}, "kv_tiers": )" +
         tiers + "}";
}

const char* const kKeep = R"({"tiers": [{"capacity": "20 GB"}], "turns": true})";
const char* const kAll = R"({"tiers": [{"capacity": "20 GB"}], "turns": true, "overlap": true, "reuse": true})";
const char* const kSmall = R"({"tiers": [{"capacity": "100 MB"}, {"name": "nvme", "capacity": "500 MB",
                               "bandwidth": "5 GB/s"}], "turns": true, "overlap": true})";
const char* const kV0 = R"({"policy": "vllm_v0", "vllm_v0": {"preemption": "swap"}})";
const char* const kFair = R"({"policy": "fairness_priority", "fairness_priority": {"period": 25}})";

}  // namespace

TEST_CASE("turns: leaping and stepping give the same, nothing is lost", "[prop]") {
  const Scratch scratch;
  const fs::path path = scratch.write("turns.csv", trace());
  for (const char* batching : {kV0, kFair, R"({"policy": "vllm_v1"})", R"({"policy": "sarathi"})"}) {
    for (const char* tiers : {kKeep, kAll, kSmall}) {
      for (const char* cache : {"paged", "block_groups", "block_hash", "radix"}) {
        const std::int64_t blocks = std::string(cache) == "radix" ? 6400 : 400;  // pages of a token
        const ServingResult result = checked_run(config(path, batching, cache, tiers, blocks), kConversations * kTurns);
        CHECK(result.kv_tiers->counters.turns > 0);
      }
    }
  }
}

TEST_CASE("turns: the next turn prefills what is new alone", "[prop]") {
  const Scratch scratch;
  const fs::path path = scratch.write("turns.csv", trace());
  // Room for all at once, so that nobody is preempted.
  const ServingResult result = run_config(config(path, kV0, "paged", kKeep, 4000));
  CHECK(result.metrics.preemptions == 0);
  CHECK(result.kv_tiers->counters.turns == kConversations * (kTurns - 1));
  // A turn leaves prompt + output - 1 tokens of KV: 249 + c, 499 + c and 749 + c behind the first three turns. The
  // trace's prompts are 250 tokens longer each time, c as much as in the first.
  std::int64_t tokens = 0;
  for (std::int64_t turn = 0; turn + 1 < kTurns; ++turn)
    for (std::int64_t c = 0; c < kConversations; ++c) tokens += 250 * turn + 150 + c + 100 - 1;
  CHECK(result.kv_tiers->counters.turn_tokens == tokens);
  CHECK(result.metrics.cached_tokens == tokens);
  const ServingResult plain = run_config(config(path, kV0, "paged", R"({"tiers": [{"capacity": "20 GB"}]})", 4000));
  CHECK(plain.metrics.cached_tokens == 0);
  CHECK(plain.metrics.processed_tokens - result.metrics.processed_tokens == tokens);
}

TEST_CASE("turns: kept copies save what is copied out, and time", "[prop]") {
  const Scratch scratch;
  const fs::path path = scratch.write("turns.csv", trace());
  const auto run = [&](const char* tiers) { return run_config(config(path, kFair, "block_groups", tiers, 4000)); };
  const ServingResult keep = run(kKeep), all = run(kAll);
  CHECK(all.kv_tiers->counters.reused_bytes > keep.kv_tiers->counters.reused_bytes);
  CHECK(all.kv_tiers->counters.out_bytes < keep.kv_tiers->counters.out_bytes);
  CHECK(all.kv_tiers->stall_ps < keep.kv_tiers->stall_ps);
}

TEST_CASE("tiers: a turn's copy becomes the next turn's, as far as the text is the same", "[unit]") {
  // 100 bytes a block of 16 tokens, a byte a ps
  TieredStore store({{.capacity_bytes = 1000, .bandwidth = 1e12}},
                    {.block_bytes = 100, .block_tokens = 16, .turns = true});
  const Text first{{1, 40}, {2, 20}};
  CHECK(store.keep_turn(10, 7, first, 59, 4, 4) == 400);
  CHECK(store.claim_turn(11, 8, first, 100) == 0);              // another conversation
  CHECK(store.claim_turn(11, 7, {{3, 40}, {2, 20}}, 50) == 0);  // another text
  CHECK(store.used_bytes(0) == 400);
  // The first 40 tokens and 5 of the next 20: 45 tokens, 3 blocks.
  CHECK(store.claim_turn(11, 7, {{1, 40}, {2, 5}, {4, 9}}, 53) == 45);
  CHECK(store.used_bytes(0) == 300);
  CHECK(store.claim_turn(12, 7, first, 50) == 0);  // taken
  CHECK(store.swap_in(11, 45, 3, 3) == 300);
  CHECK(store.used_bytes(0) == 0);
  // A turn that ends takes the place of the one before.
  CHECK(store.keep_turn(12, 7, first, 59, 4, 4) == 400);
  CHECK(store.keep_turn(13, 7, first, 59, 4, 4) == 400);
  CHECK(store.used_bytes(0) == 400);
  // Nobody waits for it: it makes room.
  CHECK(store.swap_out(14, 160, 10, 10) == 1000);
  CHECK(store.counters().dropped == 1);
  CHECK(store.claim_turn(15, 7, first, 50) == 0);
}

}  // namespace test_kv_turns
