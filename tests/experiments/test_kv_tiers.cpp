// Swapping preempted sequences to host memory, whole runs.
#include <catch2/catch.hpp>

#include "experiments/systems/serving/config/config.hpp"
#include "experiments/systems/serving/system.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_kv_tiers {

using namespace orrery;
using namespace orrery::experiments;

namespace {

/// A pool of 300 blocks, of which a request may need 256, so that much is preempted.
std::string config(const std::string& batching, const std::string& cache, const std::string& tiers) {
  return R"({"kind": "experiment", "version": 1, "system": "serving",
    "machine": {"devices": [{"part": "a10g"}]}, "model": {"config": "catalog:llama-3-8b"},
    "workload": {"generator": {"requests": 60, "limits": {"total_max": 4096},
      "arrivals": {"policy": "poisson", "poisson": {"rate": "6 1/s"}},
      "lengths": {"policy": "log_normal", "log_normal": {"prompt_mean": 161, "prompt_cv": 1.3, "output_mean": 338}}}},
    "policies": {"batching": )" +
         batching + R"(, "kvcache": {"policy": ")" + cache + R"("}},
    "replica": {"max_context": 4096, "kv_blocks": 300}, "kv_tiers": )" +
         tiers + "}";
}

ServingResult run(const std::string& text) {
  sim::Faults faults;
  const ServingConfig read = read_serving_config(sim::parse_json(text, "test"), test_systems().registries(), faults);
  faults.throw_if_any();
  return ServingSetup(read).run(nullptr);
}

std::string dump(const ServingResult& result) {
  sim::Node node = summarise(result, sim::TickScale{});
  node.set("events", sim::Node::integer(0));
  return node.dump();
}

const char* const kV0 = R"({"policy": "vllm_v0", "vllm_v0": {"preemption": "swap"}})";
const char* const kSarathi = R"({"policy": "sarathi", "sarathi": {"preemption": "swap"}})";
const char* const kFair = R"({"policy": "fairness_priority", "fairness_priority": {"period": 25}})";
const char* const kMarkov =
    R"({"policy": "fairness_priority", "fairness_priority": {"period": 10, "pattern": "markov"}})";
const char* const kHost = R"({"tiers": [{"capacity": "8 GB"}]})";
const char* const kAll = R"({"tiers": [{"capacity": "8 GB"}], "overlap": true, "reuse": true})";
const char* const kTwo = R"({"tiers": [{"capacity": "60 MB"}, {"name": "nvme", "capacity": "200 MB",
                             "bandwidth": "5 GB/s"}], "overlap": true, "reuse": true})";

}  // namespace

TEST_CASE("swap: leaping and stepping give the same, nothing is lost", "[prop]") {
  for (const char* batching : {kV0, kSarathi, kFair, kMarkov}) {
    for (const char* tiers : {kHost, kAll, kTwo}) {
      for (const char* cache : {"paged", "block_groups"}) {
        const std::string text = config(batching, cache, tiers);
        INFO(text);
        std::string stepping = text;
        stepping.insert(stepping.rfind('}'), R"(, "run": {"leap": false})");
        const ServingResult a = run(text), b = run(stepping);
        CHECK(a.metrics.completed == 60);
        CHECK(a.free_blocks == a.total_blocks);
        CHECK(a.kv_tiers->counters.outs > 0);
        CHECK(a.kv_tiers->counters.outs == a.kv_tiers->counters.ins);
        CHECK(dump(a) == dump(b));
      }
    }
  }
}

TEST_CASE("swap: without tiers, or without room in them, it is recomputing", "[prop]") {
  const ServingResult none = run(config(kV0, "paged", R"({"tiers": []})"));
  const ServingResult plain = run(config(R"({"policy": "vllm_v0"})", "paged", R"({"tiers": []})"));
  CHECK(none.metrics.preemptions > 0);
  CHECK(dump(none) == dump(plain));
  const ServingResult full = run(config(kV0, "paged", R"({"tiers": [{"capacity": "0 B"}]})"));
  CHECK(full.kv_tiers->counters.refused == full.metrics.preemptions);
  CHECK(full.metrics.preemptions == plain.metrics.preemptions);
  CHECK(full.end == plain.end);
}

TEST_CASE("swap: block groups take fewer copies, reuse fewer bytes", "[prop]") {
  const auto counters = [](const char* cache, const char* tiers) {
    return run(config(kFair, cache, tiers)).kv_tiers->counters;
  };
  const auto plain = counters("paged", kHost), groups = counters("block_groups", kHost);
  const auto reuse = counters("block_groups", R"({"tiers": [{"capacity": "8 GB"}], "reuse": true})");
  CHECK(groups.copies * 4 < plain.copies);
  CHECK(plain.reused_bytes == 0);
  CHECK(reuse.reused_bytes > 0);
  CHECK(reuse.out_bytes < reuse.in_bytes);
}

TEST_CASE("kv_tiers beside layouts is a fault", "[unit]") {
  std::string text = config(kV0, "paged", kHost);
  text.insert(text.rfind('}'), R"(, "layouts": {"modes": [{"tensor_parallel": 1}]})");
  CHECK_THROWS_AS(run(text), sim::ConfigError);
}

}  // namespace test_kv_tiers
