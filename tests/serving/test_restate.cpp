// A serving config in words, as a run says it.
#include <catch2/catch.hpp>
#include <string>

#include "experiments/systems/serving/restate.hpp"
#include "sim/base/document.hpp"

namespace orrery::experiments::test_restate {
namespace {

TEST_CASE("a config in words", "[unit]") {
  const auto words = [](const std::string& json) {
    std::string text;
    for (const auto& [what, line] : restate_serving(sim::parse_json(json, "c"))) text += what + ": " + line + "\n";
    return text;
  };
  CHECK(words(R"({"model": {"config": "catalog:llama-2-7b", "dtype": "fp16"},
                  "machine": {"devices": [{"part": "catalog:a100-sxm4-80gb", "count": 2}]},
                  "replica": {"tensor_parallel": 2},
                  "policies": {"batching": {"policy": "sarathi", "sarathi": {"token_budget": 512}},
                               "kvcache": {"policy": "paged"}, "speculation": {"policy": "none"},
                               "admission": {"policy": "all"}, "migration": {"policy": "none"}}})") ==
        "model: llama-2-7b, fp16\n"
        "machine: 2 x a100-sxm4-80gb; 1 replica of tensor parallel 2\n"
        "policies: sarathi (token_budget 512), paged\n"
        "targets: none (slo.ttft, slo.tbt)\n");
  // What is left out: one replica is all devices; a group's replicas are what the section says, or one device each.
  const auto machine = [&](const std::string& sections) {
    const std::string all = words(R"({"machine": {"devices": [{"part": "x", "count": 4}]}, )" + sections +
                                  R"(, "policies": {"batching": {"policy": "orca"}}})");
    const std::size_t begin = all.find("; ") + 2;
    return all.substr(begin, all.find('\n', begin) - begin);
  };
  CHECK(machine(R"("replica": {"tensor_parallel": null})") == "1 replica of tensor parallel 4");
  CHECK(machine(R"("replica": {"tensor_parallel": null, "expert_parallel": 2})") ==
        "1 replica of tensor parallel 4, expert parallel 2");
  CHECK(machine(
            R"("replica": {"tensor_parallel": 2}, "cluster": {"replicas": [{"count": 2, "tensor_parallel": null}]})") ==
        "2 replicas of tensor parallel 2");
  CHECK(machine(R"("replica": {}, "cluster": {"replicas": [{"count": 4, "tensor_parallel": null}]})") ==
        "4 replicas of tensor parallel 1");
  CHECK(machine(R"("replica": {}, "layouts": {"modes": [{"tensor_parallel": 1, "pipeline_parallel": 4},
                                                        {"tensor_parallel": 4, "pipeline_parallel": 1}]})") ==
        "tensor parallel 1 with 4 pipeline stages or tensor parallel 4 with 1 pipeline stages");
  CHECK(words(R"({"model": {"config": "/models/mine/config.json", "dtype": "bf16", "weight_dtype": "fp8",
                            "kv_dtype": "fp8"},
                  "machine": {"devices": [{"part": "/parts/x.json", "count": 8, "clock": "1.2 GHz"},
                                          {"part": "catalog:y"}]},
                  "cluster": {"replicas": [{"count": 2, "tensor_parallel": 1, "pipeline_parallel": 4, "role": "both"},
                                           {"count": 1, "data_parallel": 2, "expert_parallel": 8, "role": "decode"}]},
                  "policies": {"batching": {"policy": "vllm_v1", "vllm_v1": {"max_num_batched_tokens": 2048,
                                            "max_num_seqs": 256}},
                               "kvcache": {"policy": "block_hash"}, "speculation": {"policy": "n_gram"},
                               "admission": {"policy": "queue"}, "migration": {"policy": "llumnix"}},
                  "slo": {"ttft": "1.5 s", "tbt": "50 ms"},
                  "capacity": {"limits": [{"at": "p99", "metric": "e2e", "most": "30 s"}], "attainment": 0.95}})") ==
        "model: mine, bf16, weights fp8, KV cache fp8\n"
        "machine: 8 x x at 1.2 GHz, 1 x y; 2 replicas of tensor parallel 1, pipeline stages 4; 1 replica of tensor "
        "parallel 1, data parallel 2, expert parallel 8 (decode)\n"
        "policies: vllm_v1 (max_num_batched_tokens 2048, max_num_seqs 256), block_hash, n_gram, queue, llumnix\n"
        "targets: TTFT 1.5 s, TBT 50 ms, p99 of e2e 30 s, for 95 % of requests\n");
  CHECK(words(R"({"model": {"config": "config.json"}, "cluster": {"replicas": []}})") ==
        "model: config\nmachine: ; \npolicies: \ntargets: none (slo.ttft, slo.tbt)\n");
}

}  // namespace
}  // namespace orrery::experiments::test_restate
