// Fusing a large graph: `llama70b/fuse` is pattern and loop fusion of Llama-3-70B's forward graph for sizes of a decode
// step on an H100, prices included (target: 20 ms); `random10k/fuse` is loop fusion of a random graph of 10,000 ops
// (target: 1 s).
#include <benchmark/benchmark.h>

#include <string>

#include "hw/cost/cost_model.hpp"
#include "hw/parts/catalog.hpp"
#include "models/builders/builder.hpp"
#include "policies/base/graph_pass.hpp"
#include "tests/models/random_graph.hpp"

namespace {

using namespace orrery;

const std::string kSource = ORRERY_SOURCE_DIR;

template <class RegistryType>
auto make(const RegistryType& registry, const std::string& name, const std::string& params) {
  const sim::Node node = sim::parse_json(params, "bench");
  sim::Faults faults;
  const auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return choice.make();
}

std::unique_ptr<policies::GraphPass> pass(const std::string& name) {
  policies::PassRegistry registry("passes");
  policies::register_fusion_passes(registry);
  return make(registry, name, "{}");
}

models::OpGraph llama() {
  models::BuilderRegistry registry("builder");
  models::register_builders(registry, kSource + "/models/catalog");
  return make(registry, "decoder", R"({"config": "catalog:llama-3-70b"})")->build();
}

void fuse_llama(benchmark::State& state) {
  const models::OpGraph graph = llama();
  const auto gpu = hw::read_part<hw::GpuParams>(kSource + "/hw/catalog/h100-sxm5-80gb.json").part;
  const auto cost = hw::make_cost_model("tiled", gpu);
  policies::PassContext context;
  context.cost = cost.get();
  context.launch_s = 2e-6;
  context.typical = {{"batch", 8}, {"past", 1000}, {"tokens", 1}};
  const auto pattern = pass("pattern_fusion"), loop = pass("loop_fusion");
  std::size_t ops = 0;
  for (auto _ : state) {
    policies::PassReport report;
    const models::OpGraph fused = loop->run(pattern->run(graph, context, report), context, report);
    ops = fused.op_count();
  }
  state.counters["ops_before"] = static_cast<double>(graph.op_count());
  state.counters["ops_after"] = static_cast<double>(ops);
}

void fuse_random(benchmark::State& state) {
  sim::RandomStream random(1, "bench");
  const models::OpGraph graph = models::test::random_graph(random, {.ops = 10000});
  policies::PassContext context;
  context.typical = {{"batch", 256}};
  const auto loop = pass("loop_fusion");
  for (auto _ : state) {
    policies::PassReport report;
    benchmark::DoNotOptimize(loop->run(graph, context, report).op_count());
  }
}

BENCHMARK(fuse_llama)->Name("llama70b/fuse")->Unit(benchmark::kMillisecond);
BENCHMARK(fuse_random)->Name("random10k/fuse")->Unit(benchmark::kMillisecond);

}  // namespace
