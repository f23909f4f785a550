// Decodes whose attention reads a shared prefix once: whole runs.
#include "tests/experiments/support.hpp"
#include "tests/serving/run_config.hpp"

namespace test_shared_reads {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

/// Twelve questions about each of four documents of 1,024 tokens, or as many requests that share nothing.
std::string config(const std::string& batching, const std::string& cache, bool once, bool share = true) {
  return std::string(R"({"kind": "experiment", "version": 1, "system": "serving",
    "machine": {"devices": [{"part": "a100-sxm4-80gb"}]}, "model": {"config": "catalog:llama-2-7b"},
    "workload": {"generator": {"requests": 48, "arrivals": {"policy": "at_once"},
      "prefixes": )") +
         (share ? R"({"depth": 1, "fanout": 4, "node_blocks": 2})" : R"({"depth": 0})") +
         R"(, "lengths": {"policy": "log_normal",
        "log_normal": {"prompt_mean": 100, "prompt_cv": 0.5, "output_mean": 80, "output_cv": 0.5}}}},
    "policies": {"batching": {"policy": ")" +
         batching + R"("}, "kvcache": {"policy": ")" + cache + R"("}},
    "replica": {"max_context": 4096, "read_prefix_once": )" +
         (once ? "true" : "false") + "}}";
}

}  // namespace

TEST_CASE("shared reads: leaping and stepping give the same, and decodes are faster", "[prop]") {
  for (const char* batching : {"vllm_v1", "sglang", "sarathi", "batchllm"}) {
    for (const char* cache : {"block_hash", "radix"}) {
      const ServingResult once = checked_run(config(batching, cache, true), 48);
      const ServingResult each = run_config(config(batching, cache, false));
      CHECK(once.simulated_s < each.simulated_s);
    }
  }
}

TEST_CASE("shared reads: nothing shared, nothing gained", "[prop]") {
  for (const char* cache : {"block_hash", "radix"})
    CHECK(summary_text(run_config(config("vllm_v1", cache, true, false))) ==
          summary_text(run_config(config("vllm_v1", cache, false, false))));
}

}  // namespace test_shared_reads
