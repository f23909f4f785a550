// vLLM's engine arguments as a config, from a command line and from metadata.
#include <algorithm>
#include <catch2/catch.hpp>

#include "experiments/base/experiment.hpp"
#include "experiments/import/vllm_args.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_vllm_args {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

std::string text(const sim::Node& node, std::string_view path) {
  const sim::Node* value = node.at(path);
  REQUIRE(value != nullptr);
  return value->is_string() ? value->as_string() : value->dump();
}

const sim::Node& device(const sim::Node& config) {
  return config.find("machine")->find("devices")->items().front();
}

}  // namespace

TEST_CASE("A command line becomes a config that runs once it has a workload", "[unit]") {
  const EngineArguments arguments = engine_arguments(
      {"serve", "meta-llama/Llama-3.1-8B-Instruct", "-tp", "2", "--max-num-seqs=64", "--max-num-batched-tokens", "4096",
       "--no-enable-prefix-caching", "--gpu-memory-utilization", "0.85", "--block-size", "32", "--max-model-len",
       "8192", "--num-gpu-blocks-override", "5000", "--speculative-config",
       R"({"method": "ngram", "num_speculative_tokens": 3})", "--enforce-eager"});
  const ImportedConfig imported = import_vllm(arguments, {.part = "h100-sxm5-80gb"});
  sim::Node config = imported.config;
  CHECK(text(device(config), "count") == "2");
  CHECK(text(config, "model.config") == "catalog:llama-3.1-8b");
  CHECK(text(config, "model.dtype") == "bf16");
  CHECK(text(config, "policies.batching.vllm_v1.max_num_seqs") == "64");
  CHECK(text(config, "policies.batching.vllm_v1.max_num_batched_tokens") == "4096");
  CHECK(text(config, "policies.kvcache.policy") == "paged");
  CHECK(text(config, "policies.kvcache.paged.block_tokens") == "32");
  CHECK(text(config, "policies.speculation.n_gram.drafts") == "3");
  CHECK(config.at("replica.memory_margin")->as_number() == Approx(0.15));
  CHECK(text(config, "replica.max_context") == "8192");
  CHECK(text(config, "replica.kv_blocks") == "5000");
  CHECK(imported.ignored == std::vector<std::string>{"enforce_eager=true"});  // listed, not dropped
  sim::assign(config, R"(workload={"generator": {"requests": 20, "arrivals": {"policy": "poisson"},
    "lengths": {"policy": "fixed", "fixed": {"prompt": 50, "output": 10}}}})");
  CHECK(read_experiment(test_systems(), sim::parse_json(config.dump(), "imported"))->run({}).feasible());
}

TEST_CASE("Metadata of a run: what the engine resolved wins over what it was told", "[unit]") {
  const Scratch scratch;
  const fs::path file =
      scratch.write("meta.json", R"({"engine_kwargs": {"model": "meta-llama/Llama-3.1-8B", "dtype": "auto",
      "max_num_seqs": 256, "kv_cache_dtype": "auto", "seed": 42},
    "kv_cache": {"num_gpu_blocks": 2588, "block_size": 16, "enable_prefix_caching": true, "gpu_memory_utilization": 0.9},
    "hardware": {"device_name": "NVIDIA GeForce RTX 4090"},
    "resolved_config": {"model_config": {"dtype": "torch.bfloat16", "max_model_len": 32768},
      "scheduler_config": {"max_num_batched_tokens": 2048, "enable_chunked_prefill": true, "long_prefill_token_threshold": 0},
      "speculative_config": null}})");
  const ImportedConfig imported = import_vllm(engine_arguments(file), {});
  CHECK(text(device(imported.config), "part") == "rtx-4090");
  CHECK(text(imported.config, "model.dtype") == "bf16");
  CHECK(text(imported.config, "replica.kv_blocks") == "2588");
  CHECK(text(imported.config, "replica.max_context") == "32768");
  CHECK(text(imported.config, "policies.kvcache.policy") == "block_hash");
  CHECK(text(imported.config, "run.seed") == "42");
  CHECK(imported.config.at("replica.memory_margin")->as_number() == Approx(0.1));
  CHECK(imported.config.at("policies.speculation") == nullptr);
  CHECK(imported.ignored.empty());
}

TEST_CASE("What is no argument is a fault, what is unknown is listed", "[unit]") {
  CHECK_THROWS_AS(engine_arguments({"--max-num-seqs", "3", "model", "another"}), sim::ConfigError);
  const ImportedConfig imported = import_vllm(engine_arguments({"--model", "x/unknown-7b", "--swap-space", "4"}), {});
  CHECK(imported.ignored == std::vector<std::string>{"swap_space=4"});
  const auto says = [&](const std::string& word) {
    return std::any_of(imported.notes.begin(), imported.notes.end(),
                       [&](const std::string& note) { return note.find(word) != std::string::npos; });
  };
  CHECK(says("unknown-7b"));
  CHECK(says("num_gpu_blocks"));
}

TEST_CASE("Formats, experts, order, offloading and asynchronous scheduling are carried over", "[unit]") {
  const ImportedConfig imported = import_vllm(engine_arguments({"serve",
                                                                "Qwen/Qwen3-30B-A3B",
                                                                "--tensor-parallel-size",
                                                                "2",
                                                                "--data-parallel-size",
                                                                "2",
                                                                "--enable-expert-parallel",
                                                                "--quantization",
                                                                "fp8",
                                                                "--kv-cache-dtype",
                                                                "fp8_e4m3",
                                                                "--max-model-len",
                                                                "32k",
                                                                "--scheduling-policy",
                                                                "priority",
                                                                "--max-num-seqs",
                                                                "64",
                                                                "--kv-offloading-size",
                                                                "64",
                                                                "--no-async-scheduling",
                                                                "--long-prefill-token-threshold",
                                                                "512",
                                                                "--dtype",
                                                                "bfloat16"}),
                                              {.part = "h100-sxm5-80gb"});
  sim::Node config = imported.config;
  CHECK(text(device(config), "count") == "4");
  CHECK(text(config, "model.weight_dtype") == "fp8");
  CHECK(text(config, "model.kv_dtype") == "fp8");
  CHECK(text(config, "replica.max_context") == "32000");
  const sim::Node& group = config.find("cluster")->find("replicas")->items().front();
  CHECK(text(group, "count") == "1");
  CHECK(text(group, "data_parallel") == "2");
  CHECK(text(group, "expert_parallel") == "4");
  CHECK(text(config, "policies.batching.policy") == "priority");
  CHECK(text(config, "policies.batching.priority.max_sequences") == "64");
  // 64 GiB over both ranks of a replica
  CHECK(text(config.find("kv_tiers")->find("tiers")->items().front(), "capacity") == "32 GiB");
  CHECK(text(config, "kv_tiers.prefixes") == "true");
  CHECK(text(config, "host.vllm_v1.ahead") == "false");
  CHECK(imported.ignored == std::vector<std::string>{"long_prefill_token_threshold=512"});
  sim::assign(config, R"(workload={"generator": {"requests": 5, "arrivals": {"policy": "poisson"},
    "lengths": {"policy": "fixed", "fixed": {"prompt": 50, "output": 10}}}})");
  CHECK(read_experiment(test_systems(), sim::parse_json(config.dump(), "imported"))->run({}).feasible());
}

TEST_CASE("What an argument says and nothing here can express is listed", "[unit]") {
  const ImportedConfig imported =
      import_vllm(engine_arguments({"--model", "Qwen/Qwen3-8B", "--quantization", "compressed-tensors",
                                    "--kv-cache-dtype", "fp8_ds_mla", "--max-model-len", "auto",
                                    "--gpu-memory-utilization", "most", "--dtype", "float64", "--speculative-config",
                                    R"({"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 4})"}),
                  {.part = "h100-sxm5-80gb"});
  std::vector<std::string> ignored = imported.ignored;
  std::sort(ignored.begin(), ignored.end());
  CHECK(ignored == std::vector<std::string>{"dtype=float64", "gpu_memory_utilization=\"most\"",
                                            "kv_cache_dtype=fp8_ds_mla", "max_model_len=\"auto\"",
                                            "quantization=compressed-tensors",
                                            "speculative_config.prompt_lookup_max=4"});
  CHECK(imported.config.at("model.weight_dtype") == nullptr);
  CHECK(imported.config.at("model.kv_dtype") == nullptr);
}

}  // namespace test_vllm_args
