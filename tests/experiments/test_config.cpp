#include <catch2/catch.hpp>
#include <cmath>

#include "experiments/base/experiment.hpp"
#include "experiments/base/run_folder.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_config {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

std::string faults_of(const std::string& json) {
  try {
    (void)read_experiment(test_systems(), sim::parse_json(json, "c.json"));
  } catch (const sim::ConfigError& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("a config must say which system it is about", "[unit]") {
  CHECK(
      faults_of("{}") ==
      "c.json:/system: expected the name of a system (known: aggregate, capacity, dram, experts, function, goodput, "
      "graph, hls, launch, mixture, moe_layers, network, "
      "pim, plans, progress, rl, rlhf, search, serving, slo_sweep, tasks, training, training_job, training_plans, transactions, tune, uneven_batches)");
  CHECK(faults_of(R"({"system": "servin"})") == "c.json:/system: unknown system 'servin' (did you mean 'serving'?)");
}

TEST_CASE("kind and version are checked", "[unit]") {
  const std::string faults = faults_of(R"({"system": "serving", "kind": "studdy", "version": 2, "title": 3})");
  CHECK_THAT(faults, Catch::Contains("c.json:/kind: expected \"experiment\", got \"studdy\""));
  CHECK_THAT(faults, Catch::Contains("c.json:/version: expected format version 1, got 2"));
  CHECK_THAT(faults, Catch::Contains("c.json:/title: expected a string, got 3"));
}

TEST_CASE("what is missing is named where it is missing", "[unit]") {
  const std::string faults = faults_of(R"({"system": "serving"})");
  CHECK_THAT(faults, Catch::Contains("c.json:/machine/devices: missing"));
  CHECK_THAT(faults, Catch::Contains("c.json:/model/config: missing"));
  CHECK_THAT(faults, Catch::Contains("c.json:/workload: missing: expected 'trace', 'generator' or 'program'"));
}

TEST_CASE("a workload is a trace or a generator", "[unit]") {
  const std::string faults =
      faults_of(R"({"system": "serving", "workload": {"trace": {"path": "t.csv"}, "generator": {}}})");
  CHECK_THAT(faults,
             Catch::Contains("c.json:/workload: expected one of 'trace', 'generator' and 'program', got several"));
}

TEST_CASE("a machine has devices", "[unit]") {
  CHECK_THAT(faults_of(R"({"system": "serving", "machine": {"devices": []}})"),
             Catch::Contains("c.json:/machine/devices: expected at least one group of devices, got none"));
}

TEST_CASE("the hash of a run is decided by what decides the result", "[unit]") {
  const Scratch scratch;
  scratch.write("trace.csv", small_trace());
  const fs::path config = scratch.write("c.json", small_config());
  const auto hash = [&](const std::vector<std::string>& assignments) {
    return config_hash(*read_experiment(test_systems(), config, assignments));
  };
  const std::string plain = hash({});
  CHECK(hash({}) == plain);
  CHECK(hash({"run.seed=1"}) == plain);  // the default, spelled out
  CHECK(hash({"run.seed=2"}) != plain);
  CHECK(hash({"policies.batching.sarathi.token_budget=513"}) != plain);
  CHECK(hash({"policies.batching.vllm_v0.watermark=0.5"}) == plain);  // checked, not used
  CHECK(hash({"title=\"x\""}) == plain);
  scratch.write("trace.csv", small_trace() + "9,10,10\n");
  CHECK(hash({}) != plain);
}

TEST_CASE("an override changes the part", "[unit]") {
  const Scratch scratch;
  scratch.write("trace.csv", small_trace());
  const fs::path config = scratch.write("c.json", small_config());
  const auto mean_tbt = [&](const std::vector<std::string>& assignments) {
    return read_experiment(test_systems(), config, assignments)
        ->run({})
        .summary.find("tbt_s")
        ->find("mean")
        ->as_number();
  };
  CHECK(mean_tbt({"machine.devices.0.override.memory_bandwidth=\"1 TB/s\""}) > 1.5 * mean_tbt({}));
  CHECK(mean_tbt({"machine.cost.policy=roofline"}) < mean_tbt({}));
  CHECK(mean_tbt({"machine.devices.0.part=h100-sxm5-80gb"}) < mean_tbt({}));
}

TEST_CASE("the SLO, the warm-up and the end of a run do what they say", "[unit]") {
  const Scratch scratch;
  scratch.write("trace.csv", small_trace());
  const fs::path config = scratch.write("c.json", small_config());
  const auto number = [&](const std::vector<std::string>& assignments, const char* group, const char* key) {
    return read_experiment(test_systems(), config, assignments)->run({}).summary.find(group)->find(key)->as_number();
  };
  CHECK(number({"slo.tbt=\"1 us\""}, "slo", "attainment") == 0);
  CHECK(number({"slo.tbt=\"10 s\""}, "slo", "attainment") == 1);
  CHECK(number({"run.until=\"2.2 s\""}, "requests", "arrived") == 5);  // those at 0, 0.5, 1, 1.5, 2
  CHECK(number({"run.until=\"2.001 s\""}, "requests", "unfinished") == 1);
  CHECK(number({"workload.limit=3"}, "requests", "arrived") == 3);
  CHECK(number({"workload.rate_scale=2", "run.until=\"2.001 s\""}, "requests", "arrived") == 9);
}

TEST_CASE("the documented shape of a config is a config", "[unit]") {
  const Scratch scratch;
  scratch.write("trace.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n0,374,44\n");
  const fs::path config = scratch.write("c.json", R"({"system": "serving",
    "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 1}]},
    "model": {"config": "catalog:llama-2-7b", "dtype": "fp16"},
    "workload": {"rate_scale": 1.0, "trace": {"path": "trace.csv", "format": "vidur"}},
    "policies": {"batching": {"policy": "sarathi", "sarathi": {"token_budget": 512}},
                 "kvcache": {"policy": "paged", "paged": {"block_tokens": 16}}},
    "slo": {"ttft": "2 s", "tbt": "100 ms"},
    "run": {"seed": 1, "tick": "1 ps", "warmup": "0 s", "until": null, "replications": 1}})");
  CHECK(read_experiment(test_systems(), config)->run({}).feasible());
}

TEST_CASE("where the files lie does not decide the hash", "[unit]") {
  const Scratch a, b;
  for (const Scratch* scratch : {&a, &b}) {
    scratch->write("trace.csv", small_trace());
    scratch->write("c.json", small_config());
  }
  CHECK(config_hash(*read_experiment(test_systems(), a / "c.json")) ==
        config_hash(*read_experiment(test_systems(), b / "c.json")));
}

TEST_CASE("a file that lengths are drawn from is an input", "[unit]") {
  const Scratch scratch;
  scratch.write("trace.csv", small_trace());
  const fs::path config =
      scratch.write("c.json", R"({"system": "serving", "machine": {"devices": [{"part": "a100-sxm4-80gb"}]},
    "model": {"config": "catalog:llama-2-7b"}, "workload": {"generator": {"requests": 5, "arrivals": {"policy": "poisson"},
    "lengths": {"policy": "empirical", "empirical": {"path": "trace.csv"}}}}})");
  const std::string before = config_hash(*read_experiment(test_systems(), config));
  scratch.write("trace.csv", small_trace() + "9,10,10\n");
  CHECK(config_hash(*read_experiment(test_systems(), config)) != before);
}

TEST_CASE("replications vary the seed and report intervals", "[unit]") {
  const Scratch scratch;
  const fs::path config =
      scratch.write("c.json", R"({"system": "serving", "machine": {"devices": [{"part": "a100-sxm4-80gb"}]},
    "model": {"config": "catalog:llama-2-7b"}, "workload": {"generator": {"requests": 50, "arrivals": {"policy": "poisson",
    "poisson": {"rate": "2 req/s"}}, "lengths": {"policy": "fixed", "fixed": {"prompt": 500, "output": 20}}}}})");
  const auto e2e = [&](const std::string& seed) {
    return read_experiment(test_systems(), config, {"run.seed=" + seed})
        ->run({})
        .summary.find("e2e_s")
        ->find("mean")
        ->as_number();
  };
  const sim::Node summary =
      read_experiment(test_systems(), config, {"run.replications=3", "run.seed=7"})->run({}).summary;
  const double a = e2e("7"), b = e2e("8"), c = e2e("9");
  CHECK(summary.find("e2e_s")->find("mean")->as_number() == a);  // the files and the rest are of the first
  const sim::Node& figure = *summary.find("replications")->find("e2e_s.mean");
  const double mean = (a + b + c) / 3;
  CHECK(figure.find("mean")->as_number() == Approx(mean));
  // Two degrees of freedom: t = 4.30265273.
  const double variance = ((a - mean) * (a - mean) + (b - mean) * (b - mean) + (c - mean) * (c - mean)) / 2;
  CHECK(figure.find("half_width")->as_number() == Approx(4.30265273 * std::sqrt(variance / 3)));
  CHECK(a != b);
}

TEST_CASE("an exchange of experts needs ranks that exchange, and no network", "[unit]") {
  const std::string start = R"({"system": "serving", "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 8}]},
    "model": {"config": "catalog:qwen3-30b-a3b"},
    "workload": {"generator": {"requests": 1, "arrivals": {"policy": "at_once"},
                               "lengths": {"policy": "fixed", "fixed": {"prompt": 8, "output": 8}}}},)";
  const std::string replica = R"("replica": {"expert_exchange": {"kernel": "normal"}})";
  CHECK(faults_of(start + replica + "}") ==
        "c.json:/replica/expert_exchange: expected a group of replicas with data_parallel and expert_parallel above 1, "
        "whose rows it is");
  const std::string lanes =
      R"(, "cluster": {"replicas": [{"tensor_parallel": 1, "data_parallel": 8, "expert_parallel": 8}]}})";
  CHECK(faults_of(start + replica + lanes) == "none");
  CHECK_THAT(faults_of(start + R"("replica": {"expert_exchange": {"kernel": "quick"}})" + lanes),
             Catch::Contains("/replica/expert_exchange/kernel: expected one of"));
}

}  // namespace test_config
