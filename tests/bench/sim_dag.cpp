// Building the layered task graph of peers.md and running it, all together.
#include <benchmark/benchmark.h>

#include "sim/task_executor.hpp"
#include "tests/sim/layered_dag.hpp"

namespace {

using namespace orrery;

void run_layered(benchmark::State& state, std::uint64_t tasks) {
  double simulated_s = 0;
  for (auto _ : state) {
    sim::TaskGraph graph = test::layered_dag(tasks, static_cast<std::uint64_t>(state.range(0)));
    sim::Engine engine;
    sim::TaskExecutor executor(engine, graph);
    executor.run();
    simulated_s = engine.scale().seconds(executor.makespan());
  }
  state.counters["simulated_s"] = simulated_s;
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(tasks));
}

void dag(benchmark::State& state) {
  run_layered(state, 100'000);
}
BENCHMARK(dag)->Arg(16)->Arg(64)->Unit(benchmark::kMillisecond);

void dag_million(benchmark::State& state) {
  run_layered(state, 1'000'000);
}
BENCHMARK(dag_million)->Arg(16)->Unit(benchmark::kMillisecond);

/// Building alone, for the difference.
void dag_build(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(test::layered_dag(100'000, 16).tasks());
}
BENCHMARK(dag_build)->Unit(benchmark::kMillisecond);

}  // namespace
