// Expert caches over a drawn router trace: token-layer decisions a second of CPU time, eight of 128 experts each.
//
//  expert_cache/POLICY/request   64 slots, experts looked up one by one
//  expert_cache/POLICY/token     those of a token together
#include <benchmark/benchmark.h>

#include "experiments/experts/cache_trial.hpp"
#include "tests/systems.hpp"
#include "traces/router/generator.hpp"

namespace {

using namespace orrery;

void play(benchmark::State& state, const char* name, experiments::LookUp look_up) {
  static const traces::RouterTrace trace = traces::generate_router_trace({.tokens = 200'000}, 1);
  sim::Faults faults;
  const auto policy = test_systems().registry<policies::ExpertCacheRegistry>().prepare(name, nullptr, {}, faults);
  for (auto _ : state)
    benchmark::DoNotOptimize(experiments::play_layer(trace, 0, policy, {.slots = 64, .look_up = look_up}));
  state.SetItemsProcessed(state.iterations() * trace.tokens());
}

#define EXPERT_CACHE(policy)                                                       \
  BENCHMARK_CAPTURE(play, policy##_request, #policy, experiments::LookUp::request) \
      ->Name("expert_cache/" #policy "/request")                                   \
      ->Unit(benchmark::kMillisecond);                                             \
  BENCHMARK_CAPTURE(play, policy##_token, #policy, experiments::LookUp::token)     \
      ->Name("expert_cache/" #policy "/token")                                     \
      ->Unit(benchmark::kMillisecond)
EXPERT_CACHE(lru);
EXPERT_CACHE(lfu);
EXPERT_CACHE(belady);

}  // namespace
