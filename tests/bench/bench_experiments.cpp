// Serving runs without files: reading or drawing the requests, replay and summary.
//
//  like_for_like/POLICY       2,000 requests, Llama-2-7B on one A100, twice the trace's rate
//  like_for_like_cold/POLICY  the same, the iteration model built anew each time
//  like_for_like_graph/POLICY the first with its kernels from an operator graph
//  outputs/N                  requests of N output tokens each: the cost of a request must not grow with N
//  cluster_64/N               N requests to 64 replicas through a router: time grows as N
//  burstgpt_10m               experiments/studies/burstgpt_10m.json, once
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <filesystem>

#include "experiments/systems/serving/system.hpp"
#include "tests/systems.hpp"

namespace {

using namespace orrery;

experiments::ServingConfig like_for_like(const std::string& policy, const std::filesystem::path& trace, bool graph) {
  sim::Faults faults;
  std::vector<std::string> sets{"workload.trace.path=" + trace.string(), "workload.rate_scale=2",
                                "policies.batching.policy=" + policy};
  if (graph) sets.emplace_back(R"(policies.passes={"order": []})");
  const sim::Node root =
      sim::read_config(std::filesystem::path(ORRERY_SOURCE_DIR) / "experiments/studies/vidur_like_for_like.json", sets);
  experiments::ServingConfig config = experiments::read_serving_config(root, test_systems().registries(), faults);
  faults.throw_if_any();
  return config;
}

void replay(benchmark::State& state, const std::string& policy, bool cold, bool graph = false) {
  const std::filesystem::path trace =
      std::filesystem::path(ORRERY_SHARED_DIR) / "data/traces/vidur_bench/conv2000_x2.csv";
  if (!std::filesystem::exists(trace)) {
    state.SkipWithError("the trace of the like-for-like run is not there");
    return;
  }
  const experiments::ServingConfig config = like_for_like(policy, trace, graph);
  experiments::ServingSetup setup(config);
  std::int64_t requests = 0;
  std::uint64_t events = 0;
  for (auto _ : state) {
    if (cold) setup = experiments::ServingSetup(config);
    const experiments::ServingResult result = setup.run(nullptr);
    benchmark::DoNotOptimize(experiments::summarise(result, sim::TickScale{1}));
    requests += result.metrics.arrived;
    events += result.events;
  }
  state.counters["requests_per_s"] = benchmark::Counter(static_cast<double>(requests), benchmark::Counter::kIsRate);
  state.counters["events_per_s"] = benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
}

experiments::ServingConfig study(const std::string& name, const std::vector<std::string>& sets) {
  sim::Faults faults;
  const sim::Node root =
      sim::read_config(std::filesystem::path(ORRERY_SOURCE_DIR) / "experiments/studies" / name, sets);
  experiments::ServingConfig config = experiments::read_serving_config(root, test_systems().registries(), faults);
  faults.throw_if_any();
  return config;
}

void run_study(benchmark::State& state, const experiments::ServingConfig& config) {
  const experiments::ServingSetup setup(config);
  std::int64_t requests = 0;
  for (auto _ : state) {
    const experiments::ServingResult result = setup.run(nullptr);
    benchmark::DoNotOptimize(experiments::summarise(result, sim::TickScale{1000}));
    requests += result.metrics.arrived;
  }
  state.counters["requests_per_s"] = benchmark::Counter(static_cast<double>(requests), benchmark::Counter::kIsRate);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MB"] = static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace

int main(int argc, char** argv) {
  for (const char* policy : {"sarathi", "vllm_v0", "orca", "static"}) {
    for (const bool cold : {false, true}) {
      const std::string name = std::string(cold ? "like_for_like_cold/" : "like_for_like/") + policy;
      benchmark::RegisterBenchmark(name.c_str(), [policy, cold](benchmark::State& state) {
        replay(state, policy, cold);
      })->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::RegisterBenchmark("like_for_like_graph/sarathi", [](benchmark::State& state) {
    replay(state, "sarathi", false, true);
  })->Unit(benchmark::kMillisecond);
  for (const int tokens : {10, 100, 1000, 7000}) {
    benchmark::RegisterBenchmark(("outputs/" + std::to_string(tokens)).c_str(), [tokens](benchmark::State& state) {
      run_study(state, study("burstgpt_10m.json",
                             {"workload.generator.requests=20000", "workload.generator.lengths.policy=fixed",
                              "workload.generator.arrivals.gamma.rate=\"0.01 1/s\"",
                              "workload.generator.lengths.fixed.prompt=500",
                              "workload.generator.lengths.fixed.output=" + std::to_string(tokens)}));
    })->Unit(benchmark::kMillisecond);
  }
  for (const int requests : {100'000, 200'000, 400'000}) {
    benchmark::RegisterBenchmark(
        ("cluster_64/" + std::to_string(requests)).c_str(),
        [requests](benchmark::State& state) {
          run_study(
              state,
              study("burstgpt_10m.json",
                    {"workload.generator.requests=" + std::to_string(requests), "machine.devices.0.count=64",
                     "cluster.replicas=[{\"name\": \"all\", \"count\": 64, \"tensor_parallel\": 1}]",
                     "policies.routing.policy=least_loaded", "workload.generator.arrivals.gamma.rate=\"300 1/s\""}));
        })
        ->Unit(benchmark::kMillisecond)
        ->Iterations(1);
  }
  benchmark::RegisterBenchmark("burstgpt_10m",
                               [](benchmark::State& state) { run_study(state, study("burstgpt_10m.json", {})); })
      ->Unit(benchmark::kMillisecond)
      ->Iterations(1);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
