// Prefixes that a cache gave up, loaded from the tiers behind it: whole runs, and the store by hand.
#include "policies/kvcache/tiered_store.hpp"
#include "tests/policies/kv_support.hpp"
#include "tests/serving/run_config.hpp"

namespace test_kv_prefix_tiers {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using policies::TieredStore;

namespace {

/// 8 documents of 1,024 tokens (64 blocks) and questions about them; 300 blocks hold four of them.
std::string config(const std::string& batching, const std::string& tiers,
                   const std::string& prefixes = R"({"depth": 1, "fanout": 8, "node_blocks": 2})") {
  return R"({"kind": "experiment", "version": 1, "system": "serving",
    "machine": {"devices": [{"part": "a10g"}]}, "model": {"config": "catalog:llama-3-8b"},
    "workload": {"generator": {"requests": 60, "limits": {"total_max": 512}, "prefixes": )" +
         prefixes + R"(,
      "arrivals": {"policy": "poisson", "poisson": {"rate": "3 1/s"}},
      "lengths": {"policy": "log_normal", "log_normal": {"prompt_mean": 60, "prompt_cv": 1, "output_mean": 60}}}},
    "policies": {"batching": {"policy": ")" +
         batching + R"("}, "kvcache": {"policy": "block_hash"}},
    "replica": {"max_context": 4096, "kv_blocks": 300}, "kv_tiers": )" +
         tiers + "}";
}

const char* const kHost = R"({"tiers": [{"capacity": "8 GB", "copy": "0 s"}], "prefixes": true})";
const char* const kAsync = R"({"tiers": [{"capacity": "8 GB", "copy": "0 s"}], "prefixes": true, "overlap": true})";
const char* const kTwo = R"({"tiers": [{"capacity": "300 MB", "copy": "0 s"}, {"name": "nvme", "capacity": "2 GB",
                             "bandwidth": "5 GB/s"}], "prefixes": true, "overlap": true})";
const char* const kNone = R"({"tiers": [{"capacity": "8 GB"}]})";

std::int64_t hits(const ServingResult& result) {
  std::int64_t tokens = 0;
  for (const std::int64_t some : result.kv_tiers->counters.hit_tokens) tokens += some;
  return tokens;
}

}  // namespace

TEST_CASE("prefixes from tiers: leaping and stepping give the same under every policy, nothing is lost", "[prop]") {
  policies::BatchingRegistry registry("batching");
  policies::register_batching_policies(registry);
  for (const std::string& batching : registry.names()) {
    if (batching == "seesaw") continue;  // has a store of its own
    for (const char* tiers : {kHost, kAsync, kTwo}) {
      const ServingResult result = checked_run(config(batching, tiers), 60);
      if (batching == "static" || batching == "fastertransformer") continue;  // few at once: little is evicted
      CHECK(result.kv_tiers->counters.kept_blocks > 0);
      CHECK(result.kv_tiers->counters.loaded_blocks > 0);
    }
  }
}

TEST_CASE("prefixes from tiers: more hits, less to compute", "[prop]") {
  const ServingResult without = run_config(config("vllm_v1", kNone)), host = run_config(config("vllm_v1", kHost));
  CHECK(hits(without) == 0);
  CHECK(hits(host) > 0);
  // What is cached is what the device and the tiers had, and all of it is not computed.
  CHECK(host.metrics.cached_tokens == host.kv_tiers->device_tokens + hits(host));
  CHECK(host.metrics.cached_tokens > without.metrics.cached_tokens);
  CHECK(host.metrics.processed_tokens < without.metrics.processed_tokens);
  // With room for all documents in the host nothing is computed twice: all but the first question find the document,
  // unless it is on its way out just then.
  CHECK(host.metrics.cached_tokens >= (60 - 8 - 6) * 1024);
  // Both tiers are used where the first is small.
  const ServingResult two = run_config(config("vllm_v1", kTwo));
  REQUIRE(two.kv_tiers->counters.hit_tokens.size() == 2);
  CHECK(two.kv_tiers->counters.hit_tokens[0] > 0);
  CHECK(two.kv_tiers->counters.hit_tokens[1] > 0);
}

TEST_CASE("prefixes from tiers: a slow link costs time, a free one none", "[prop]") {
  const auto tiers = [](const char* bandwidth) {
    return std::string(R"({"tiers": [{"capacity": "8 GB", "copy": "0 s", "bandwidth": ")") + bandwidth +
           R"("}], "prefixes": true})";
  };
  const ServingResult fast = run_config(config("vllm_v1", tiers("1e18 B/s")));
  const ServingResult slow = run_config(config("vllm_v1", tiers("1 GB/s")));
  // 64 blocks of 16 tokens, 131,072 bytes each: 134 MB, 134 ms at 1 GB/s.
  CHECK(fast.kv_tiers->stall_ps <= 3 * fast.kv_tiers->counters.loaded_blocks);  // 2.1 ps each
  CHECK(slow.kv_tiers->stall_ps > 0);
  CHECK(slow.kv_tiers->stall_ps / slow.kv_tiers->counters.loaded_blocks == 16 * 131'072 * 1'000);
}

TEST_CASE("prefixes from tiers: nothing happens where nothing is shared, or nothing is evicted", "[prop]") {
  const std::string alone = R"({"depth": 0})";
  const ServingResult a = run_config(config("vllm_v1", kHost, alone)), b = run_config(config("vllm_v1", kNone, alone));
  CHECK(a.kv_tiers->counters.loaded_blocks == 0);
  CHECK(a.end == b.end);
  const std::string few = R"({"depth": 1, "fanout": 1, "node_blocks": 2})";
  const ServingResult c = run_config(config("vllm_v1", kHost, few)), d = run_config(config("vllm_v1", kNone, few));
  CHECK(c.kv_tiers->counters.loaded_blocks == 0);
  CHECK(c.end == d.end);
}

TEST_CASE("prefixes from tiers: faults", "[unit]") {
  const auto fault = [](const std::string& text) {
    try {
      run_config(text);
    } catch (const sim::ConfigError& error) {
      return error.faults().front().text();
    }
    return std::string();
  };
  std::string radix = config("vllm_v1", kHost);
  radix.replace(radix.find("block_hash"), 10, "radix");
  CHECK_THAT(fault(radix), Catch::Contains("/kv_tiers/prefixes") && Catch::Contains("got 'radix'"));
  CHECK_THAT(fault(radix), Catch::Contains("block_hash"));
  std::string swaps = config("vllm_v1", kNone);
  swaps.replace(swaps.find(R"("policy": "vllm_v1")"), 19, R"("policy": "vllm_v1", "vllm_v1": {"preemption": "swap"})");
  CHECK_THAT(fault(swaps), Catch::Contains("/policies/batching/vllm_v1/preemption") && Catch::Contains("vllm_v0"));
}

TEST_CASE("tiers: blocks of prefixes are there when their copy is through", "[unit]") {
  // 100 bytes a block, a byte a ps, 7 ps a copy, 2 copies a run: a block takes 114 ps.
  TieredStore store({{.capacity_bytes = 300, .bandwidth = 1e12, .copy_ps = 7},
                     {.capacity_bytes = 100, .bandwidth = 1e11, .copy_ps = 7}},
                    {.block_bytes = 100, .copies_per_run = 2, .prefixes = true});
  store.at(1000);
  store.keep_block(1);
  store.keep_block(2);  // after the other: through at 1,228
  store.at(1113);
  CHECK_FALSE(store.has_block(1));
  store.at(1114);
  CHECK(store.has_block(1));
  CHECK_FALSE(store.has_block(2));
  store.at(1228);
  CHECK(store.has_block(2));
  store.keep_block(1);  // is there already: used last now
  CHECK(store.counters().kept_blocks == 2);
  store.at(5000);
  store.keep_block(3);
  store.keep_block(4);  // 2 moves on
  store.at(6000);
  CHECK(store.used_bytes(1) == 100);
  const std::vector<std::uint64_t> both{1, 2};
  for (const std::uint64_t hash : both) store.pin_block(hash);
  CHECK(store.load_blocks(both, 16, true) == 114 + 14 + 1000);  // 2 at the second tier's bandwidth
  CHECK(store.counters().hit_tokens == std::vector<std::int64_t>{16, 16});
  CHECK(store.has_block(1));  // the copies stay
  store.at(7000);
  store.keep_block(5);  // 3, used longest ago, moves on, and 2 makes room for it
  CHECK_FALSE(store.has_block(2));
  CHECK(store.counters().dropped == 1);
  CHECK(store.has_block(3));
}

}  // namespace test_kv_prefix_tiers
