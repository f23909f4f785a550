// The like-for-like serving run: 2,000 requests, Llama-2-7B on one A100, twice the trace's rate.
// Timed: reading the trace, replay and summary; no files. `cold` builds the iteration model anew each time as well.
#include <benchmark/benchmark.h>

#include <filesystem>

#include "experiments/serving/system.hpp"

namespace {

using namespace orrery;

experiments::ServingConfig like_for_like(const std::string& policy, const std::filesystem::path& trace) {
  sim::Faults faults;
  const sim::Node root =
      sim::read_config(std::filesystem::path(ORRERY_SOURCE_DIR) / "experiments/studies/vidur_like_for_like.json",
                       std::vector<std::string>{"workload.trace.path=" + trace.string(), "workload.rate_scale=2",
                                                "policies.batching.policy=" + policy});
  experiments::ServingConfig config = experiments::read_serving_config(root, faults);
  faults.throw_if_any();
  return config;
}

void replay(benchmark::State& state, const std::string& policy, bool cold) {
  const std::filesystem::path trace =
      std::filesystem::path(ORRERY_SHARED_DIR) / "data/traces/vidur_bench/conv2000_x2.csv";
  if (!std::filesystem::exists(trace)) {
    state.SkipWithError("the trace of the like-for-like run is not there");
    return;
  }
  const experiments::ServingConfig config = like_for_like(policy, trace);
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
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
