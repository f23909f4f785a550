// Building a layered task graph and running it, all together.
#include <benchmark/benchmark.h>

#include "sim/task/analysis.hpp"
#include "sim/task/executor.hpp"
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

/// Transfers between pairs of 64 ports: two demands a task, some 4,000 sets of demands.
void dag_pairs(benchmark::State& state) {
  constexpr std::uint64_t kPorts = 64, kTasks = 100'000;
  for (auto _ : state) {
    sim::TaskGraph graph;
    graph.reserve(kTasks, kTasks);
    std::vector<sim::ResourceId> port;
    for (std::uint64_t p = 0; p < kPorts; ++p) port.push_back(graph.add_resource({}));
    for (std::uint64_t id = 0; id < kTasks; ++id) {
      const std::uint64_t from = test::mix64(3 * id) % kPorts;
      const std::uint64_t to = (from + 1 + test::mix64(3 * id + 1) % (kPorts - 1)) % kPorts;
      const sim::Duration duration{static_cast<std::int64_t>(1000 + test::mix64(3 * id + 2) % 1000)};
      const sim::TaskId task = graph.add({.duration = duration, .on = {port[from], port[to]}});
      if (id >= 400) graph.add_dependency(sim::TaskId{task.index - 400}, task);  // 400 under way or waiting
    }
    sim::Engine engine;
    sim::TaskExecutor executor(engine, graph);
    executor.run();
    benchmark::DoNotOptimize(executor.makespan());
  }
}
BENCHMARK(dag_pairs)->Unit(benchmark::kMillisecond);

/// Finding out why it took so long.
void dag_critical_path(benchmark::State& state) {
  sim::TaskGraph graph = test::layered_dag(100'000, 16);
  sim::Engine engine;
  sim::TaskExecutor executor(engine, graph);
  executor.run();
  for (auto _ : state)
    benchmark::DoNotOptimize(sim::critical_path(graph, executor.runs(), executor.origin()).makespan());
}
BENCHMARK(dag_critical_path)->Unit(benchmark::kMillisecond);

/// Building alone, for the difference.
void dag_build(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(test::layered_dag(100'000, 16).tasks());
}
BENCHMARK(dag_build)->Unit(benchmark::kMillisecond);

}  // namespace
