// The double-buffered pipeline of a matrix product as tasks on engines: the slow oracle of hw/npu/npu_gemm.hpp.
//
// One core stands for all (they share the memory evenly): load engine, matrix unit, store engine. A step is loaded once
// the buffer of the step before the last is free, and computed once it is loaded; a tile's results are stored behind
// the next tile, or before it where the accumulators hold one tile only. Loop and synchronisation hold both engines.
#pragma once

#include <cstdint>
#include <vector>

#include "hw/npu/npu_gemm.hpp"
#include "sim/engine.hpp"
#include "sim/task/executor.hpp"

namespace orrery::hw::test {

inline sim::Duration ticks(double seconds) {
  return {static_cast<std::int64_t>(seconds * 1e12 + 0.5)};
}

/// Seconds of a plan on the engines: two paths of a core, its matrix unit, and the memory.
inline double pipeline_s(const NpuGemmPlan& plan, double step_s) {
  sim::TaskGraph graph;
  const sim::ResourceId in = graph.add_resource({.name = "load"}), out = graph.add_resource({.name = "store"});
  const sim::ResourceId unit = graph.add_resource({.name = "matrix"}), memory = graph.add_resource({.name = "memory"});
  const auto task = [&](double seconds, sim::ResourceId on, const std::vector<sim::TaskId>& after) {
    return graph.add({.duration = ticks(seconds), .on = {on}, .after = after});
  };
  using Pair = std::vector<sim::TaskId>;  // path and memory: both have to be done
  std::vector<sim::TaskId> computes;
  std::vector<Pair> stores;
  for (std::int64_t tile = 0; tile < plan.waves; ++tile) {
    for (std::int64_t s = 0; s < plan.steps_per_tile; ++s) {
      Pair buffer;
      if (computes.size() >= 2) buffer.push_back(computes[computes.size() - 2]);
      Pair ready{task(plan.load_path_s + step_s, in, buffer), task(plan.dram_load_s + step_s, memory, buffer)};
      const std::size_t results = plan.results_doubled ? 2 : 1;
      if (s == 0 && stores.size() >= results)
        for (const sim::TaskId store : stores[stores.size() - results]) ready.push_back(store);
      computes.push_back(task(plan.compute_s + step_s, unit, ready));
    }
    stores.push_back(
        {task(plan.store_path_s, out, {computes.back()}), task(plan.dram_store_s, memory, {computes.back()})});
  }
  sim::Engine engine;
  sim::TaskExecutor executor(engine, graph);
  executor.run();
  return static_cast<double>(executor.makespan().ticks) * 1e-12 + plan.fill_s - step_s;
}

}  // namespace orrery::hw::test
