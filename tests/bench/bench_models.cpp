// Benchmarks of models/: symbolic expressions and what an iteration of a large model costs to describe.
// Targets: flat programs evaluate 2e7 nodes/s/core; Llama-3-70B builds, fuses and lowers in 50 ms, its flat program
// evaluates an iteration in 1 us and its table in 100 ns.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "hw/cost/cost_model.hpp"
#include "hw/parts/catalog.hpp"
#include "models/builders/builder.hpp"
#include "models/iteration_program.hpp"
#include "models/sym/expr.hpp"
#include "models/sym/expr_program.hpp"
#include "policies/base/graph_pass.hpp"

using namespace orrery::models;
namespace hw = orrery::hw;
namespace policies = orrery::policies;
namespace sim = orrery::sim;

namespace {

/// FLOPs and bytes of the operators of some layers, in sizes as tensors have them: shared products, quotients, minima.
std::vector<SymExpr> layer_expressions() {
  const SymExpr b = SymExpr::dim("batch"), t = SymExpr::dim("tokens"), c = SymExpr::dim("context");
  std::vector<SymExpr> out;
  for (const std::int64_t h : {1024, 4096, 8192}) {
    const SymExpr rows = b * t;
    out.push_back(2 * rows * h * (3 * h));
    out.push_back(4 * rows * (c + t) * h);
    out.push_back(2 * (rows * h + 3 * h * h + rows * 3 * h));
    out.push_back(ceil_div(rows, 128) * (h / 128));
    out.push_back(min(c + t, h) * b * 2 * h);
    out.push_back(floor_div(rows * h, 7) + max(rows, c));
    out.push_back((rows + h) * (c + 1) - b * b * t);
  }
  return out;
}

const std::vector<Symbol>& inputs() {
  static const std::vector<Symbol> symbols{Symbol("batch"), Symbol("tokens"), Symbol("context")};
  return symbols;
}

/// Items are nodes.
void symbolic_batch(benchmark::State& state) {
  const std::vector<SymExpr> outputs = layer_expressions();
  const ExprProgram program(outputs, inputs());
  const auto points = static_cast<std::size_t>(state.range(0));
  std::vector<std::int64_t> values, out(outputs.size() * points);
  for (std::size_t i = 0; i < inputs().size(); ++i)
    for (std::size_t p = 0; p < points; ++p) values.push_back(static_cast<std::int64_t>(1 + (p * 37 + i * 11) % 2048));
  for (auto _ : state) {
    program.evaluate_batch(points, values, out);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(program.nodes() * points));
}

void symbolic_point(benchmark::State& state) {
  const std::vector<SymExpr> outputs = layer_expressions();
  const ExprProgram program(outputs, inputs());
  std::vector<std::int64_t> values{8, 512, 1000}, out(outputs.size());
  for (auto _ : state) {
    values[1] = 1 + (values[1] + 1) % 4096;
    program.evaluate(values, out);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(program.nodes()));
}

/// The same without compiling.
void symbolic_eval(benchmark::State& state) {
  const std::vector<SymExpr> outputs = layer_expressions();
  Bindings sizes{{"batch", 8}, {"tokens", 512}, {"context", 1000}};
  for (auto _ : state)
    for (const SymExpr& expr : outputs) benchmark::DoNotOptimize(expr.eval(sizes));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(outputs.size()));
}

/// Building: 21 expressions of some 6 operations each.
void symbolic_build(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(layer_expressions());
  state.SetItemsProcessed(state.iterations() * 21);
}

/// One question of order between sizes of tensors with two free dimensions.
void symbolic_compare(benchmark::State& state) {
  Facts facts;
  for (const char* name : {"batch", "tokens", "context"}) facts.in_range(Symbol(name), {1, 4096});
  const std::vector<SymExpr> sizes = layer_expressions();
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(compare(sizes[i % sizes.size()], sizes[(i + 3) % sizes.size()], facts));
    ++i;
  }
}

BENCHMARK(symbolic_batch)->Name("symbolic/batch")->Arg(128)->Arg(65536);
BENCHMARK(symbolic_point)->Name("symbolic/point");
BENCHMARK(symbolic_eval)->Name("symbolic/eval");
BENCHMARK(symbolic_build)->Name("symbolic/build");
BENCHMARK(symbolic_compare)->Name("symbolic/compare");

const std::string kSource = ORRERY_SOURCE_DIR;

/// Llama-3-70B as a decoder with a cache.
std::unique_ptr<GraphBuilder> llama_builder() {
  BuilderRegistry registry("builder");
  register_builders(registry, kSource + "/models/catalog");
  const sim::Node node = sim::parse_json(R"({"config": "catalog:llama-3-70b", "cache": true})", "bench.json");
  sim::Faults faults;
  const auto choice = registry.prepare("decoder", &node, {}, faults);
  faults.throw_if_any();
  return choice.make();
}

std::unique_ptr<policies::GraphPass> fusion() {
  policies::PassRegistry registry("pass");
  policies::register_fusion_passes(registry);
  const sim::Node node = sim::parse_json("{}", "bench.json");
  sim::Faults faults;
  const auto choice = registry.prepare("pattern_fusion", &node, {}, faults);
  faults.throw_if_any();
  return choice.make();
}

const Bindings& decode_sizes() {
  static const Bindings sizes{{"batch", 32}, {"tokens", 1}, {"past", 2000}};
  return sizes;
}

OpGraph fused_llama() {
  const policies::PassContext context{.typical = decode_sizes()};
  policies::PassReport report;
  return fusion()->run(llama_builder()->build(), context, report);
}

/// From parameters to the kernels of a decode iteration: reading the config, building, fusing, lowering.
void build_fuse_lower(benchmark::State& state) {
  const std::unique_ptr<policies::GraphPass> pass = fusion();
  const policies::PassContext context{.typical = decode_sizes()};
  std::size_t ops = 0, kernels = 0;
  for (auto _ : state) {
    const OpGraph graph = llama_builder()->build();
    policies::PassReport report;
    const OpGraph fused = pass->run(graph, context, report);
    const GraphLaunches launches = lower(fused, decode_sizes());
    ops = graph.op_count();
    kernels = launches.kernels.size();
    benchmark::DoNotOptimize(launches.kernels.data());
  }
  state.counters["ops"] = static_cast<double>(ops);
  state.counters["kernels"] = static_cast<double>(kernels);
}

/// Its parts. 0: build, 1: fuse, 2: lower what was built, 3: compile the flat program of what was built.
void llama_part(benchmark::State& state) {
  const std::unique_ptr<GraphBuilder> builder = llama_builder();
  const std::unique_ptr<policies::GraphPass> pass = fusion();
  const policies::PassContext context{.typical = decode_sizes()};
  const OpGraph graph = builder->build();
  for (auto _ : state) {
    policies::PassReport report;
    switch (state.range(0)) {
      case 0:
        benchmark::DoNotOptimize(builder->build());
        break;
      case 1:
        benchmark::DoNotOptimize(pass->run(graph, context, report));
        break;
      case 2:
        benchmark::DoNotOptimize(lower(graph, decode_sizes()));
        break;
      default:
        benchmark::DoNotOptimize(IterationProgram(graph));
    }
  }
}

/// FLOPs, bytes and memory of one iteration.
void flat_program(benchmark::State& state) {
  const IterationProgram program(fused_llama());
  std::vector<std::int64_t> sizes;  // in the order of inputs
  for (const Symbol input : program.inputs()) sizes.push_back(decode_sizes().at(input));
  for (auto _ : state) {
    sizes[0] = 1 + (sizes[0] + 1) % 256;
    benchmark::DoNotOptimize(program.evaluate(sizes));
  }
  state.counters["nodes"] = static_cast<double>(program.program().nodes());
  state.counters["live_candidates"] = static_cast<double>(program.live_candidates());
}

BENCHMARK(build_fuse_lower)->Name("llama70b/build_fuse_lower")->Unit(benchmark::kMillisecond);
BENCHMARK(llama_part)->Name("llama70b/part")->DenseRange(0, 3)->Unit(benchmark::kMillisecond);
BENCHMARK(flat_program)->Name("llama70b/flat_program");

}  // namespace

BENCHMARK_MAIN();
