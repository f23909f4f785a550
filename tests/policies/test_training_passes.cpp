// Training passes: casts where the rules ask for them and no more, regions run again, micro-batches summed.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "models/autodiff/autodiff.hpp"
#include "models/graph/liveness.hpp"
#include "policies/base/graph_pass.hpp"
#include "tests/models/random_graph.hpp"

namespace orrery::policies::test_training_passes {
namespace {

using namespace models;

const SymExpr kBatch = SymExpr::dim("batch");
const Bindings kSizes{{"batch", 64}};

OpGraph run_pass(const std::string& name, const OpGraph& graph, PassReport& report,
                 sim::Node params = sim::Node::object(), const Bindings& sizes = kSizes) {
  static const PassRegistry registry = [] {
    PassRegistry all("pass");
    register_training_passes(all);
    return all;
  }();
  sim::Faults faults;
  const auto choice = registry.prepare(name, &params, {}, faults);
  faults.throw_if_any();
  PassContext context;
  context.typical = sizes;
  OpGraph done = choice.make()->run(graph, context, report);
  REQUIRE(verify(done) == std::vector<std::string>{});
  return done;
}

double figure(const PassReport& report, const std::string& name) {
  for (const auto& [key, value] : report.figures)
    if (key == name) return value;
  FAIL("no figure " + name);
  return 0;
}

sim::Node with(const std::string& key, sim::Node value) {
  sim::Node node = sim::Node::object();
  node.set(key, std::move(value));
  return node;
}

/// `layers` blocks: norm, product, GELU, product, residual; in fp32.
OpGraph blocks(int layers, bool loss = false) {
  OpGraph graph;
  graph.facts.in_range(Symbol("batch"), {1, {}});
  TensorId x = graph.input("x", {kBatch, 32}, ElementType::fp32);
  for (int i = 0; i < layers; ++i) {
    const std::string scope = "layer." + std::to_string(i);
    graph.set_scope(scope);
    const auto weight = [&](const char* name, std::vector<SymExpr> shape) {
      return graph.parameter(scope + "." + name, std::move(shape), ElementType::fp32);
    };
    const TensorId normed = graph.emit(OpKind::layer_norm, {x, weight("gain", {32}), weight("shift", {32})});
    const TensorId up = graph.emit(OpKind::matmul, {normed, weight("up", {32, 128})});
    const TensorId down = graph.emit(OpKind::matmul, {graph.emit(OpKind::gelu, {up}), weight("down", {128, 32})});
    x = graph.emit(OpKind::add, {x, down});
  }
  graph.set_scope("");
  if (loss) x = graph.emit(OpKind::reduce_mean, {x}, {{"axes", std::vector<SymExpr>{0, 1}}});
  graph.mark_output(x);
  return graph;
}

TEST_CASE("The pass differentiates and tells what it made", "[unit][autodiff]") {
  PassReport report;
  const OpGraph graph = run_pass("autodiff", blocks(2, true), report, with("optimizer", sim::Node::string("adam")));
  CHECK(figure(report, "gradients") == 8);  // four a layer
  CHECK(figure(report, "unreached") == 0);
  double saved = 0;
  for (const TensorId id : graph.tensors()) saved += graph.tensor(id).saved ? 1 : 0;
  CHECK(figure(report, "saved_tensors") == saved);
  CHECK(graph.with_role(TensorRole::state).size() == 16);
  CHECK_THROWS_WITH(run_pass("autodiff", graph, report),
                    "autodiff: expected a forward graph; it has been differentiated already");
}

TEST_CASE("Mixed precision casts by kind, weights once, and never twice", "[unit][amp]") {
  PassReport report;
  const OpGraph forward = run_pass("amp", blocks(1), report);
  std::map<std::string, std::string> types;
  for (const OpId id : forward.ops())
    types[std::string(to_string(forward.op(id).kind))] = to_string(forward.tensor(forward.op(id).outputs.front()).type);
  CHECK(types["matmul"] == "fp16");
  CHECK(types["layer_norm"] == "fp32");
  CHECK(types["gelu"] == "fp16");       // follows its operand
  CHECK(types["add"] == "fp32");        // the residual is wide
  CHECK(figure(report, "casts") == 3);  // the norm's output and two weights
  CHECK(figure(report, "weight_casts") == 2);

  for (const bool cast_first : {true, false}) {  // before or after differentiation
    OpGraph graph = blocks(3, true);
    PassReport told;
    graph = run_pass(cast_first ? "amp" : "autodiff", graph, told);
    graph = run_pass(cast_first ? "autodiff" : "amp", graph, told);
    std::map<std::pair<TensorId, std::string>, int> seen;
    for (const OpId id : graph.ops()) {
      const OpNode& op = graph.op(id);
      if (op.kind == OpKind::matmul) {
        for (const TensorId input : op.inputs) CHECK(graph.tensor(input).type == ElementType::fp16);
      }
      if (op.kind == OpKind::optimizer_step)
        for (const TensorId input : op.inputs) CHECK(graph.tensor(input).type == ElementType::fp32);
      if (op.kind != OpKind::cast) continue;
      const TensorId from = op.inputs.front();
      CHECK(graph.tensor(from).type != graph.tensor(op.outputs.front()).type);
      CHECK(++seen[{from, std::string(op.text("to"))}] == 1);
    }
  }
}

TEST_CASE("Mixed precision leaves whole numbers alone", "[unit][amp]") {
  OpGraph graph;
  const TensorId ids = graph.input("ids", {kBatch, 16}, ElementType::int64);
  const TensorId table = graph.parameter("table", {100, 32}, ElementType::fp32);
  const TensorId rows = graph.emit(OpKind::embedding, {table, ids}, {kBatch, 16, 32}, ElementType::fp32);
  graph.mark_output(graph.emit(OpKind::matmul, {rows, graph.parameter("w", {32, 8}, ElementType::fp32)}));
  PassReport report;
  const OpGraph mixed = run_pass("amp", graph, report);
  std::int64_t casts = 0;
  for (const OpId id : mixed.ops()) {
    const OpNode& op = mixed.op(id);
    if (op.kind == OpKind::embedding) CHECK(mixed.tensor(op.inputs[1]).type == ElementType::int64);
    if (op.kind == OpKind::cast) CHECK(mixed.tensor(op.inputs[0]).type != ElementType::int64);
    casts += op.kind == OpKind::cast ? 1 : 0;
  }
  CHECK(casts > 0);
}

TEST_CASE("Mixed precision leaves a graph alone that has its types already", "[unit][amp]") {
  PassReport report;
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 8}, ElementType::fp16);
  graph.mark_output(
      graph.emit(OpKind::relu, {graph.emit(OpKind::matmul, {x, graph.parameter("w", {8, 8}, ElementType::fp16)})}));
  CHECK(to_string(run_pass("amp", graph, report)) == to_string(graph));
  CHECK_THROWS_WITH(run_pass("amp", graph, report, with("dtype", sim::Node::string("fp8"))),
                    "amp: dtype: expected fp16 or bf16, got fp8");
}

TEST_CASE("Recomputed regions keep what enters and leaves them", "[unit][recompute]") {
  PassReport report;
  const OpGraph training = run_pass("autodiff", blocks(4, true), report);
  const OpGraph graph = run_pass("recompute", training, report);
  CHECK(figure(report, "regions") == 4);
  // Norm, product and GELU of each layer; the last product feeds the residual only, which nothing reads back.
  CHECK(figure(report, "ops_again") == 12);
  CHECK(figure(report, "applied") == 1);
  CHECK(liveness(graph, kSizes).peak < liveness(training, kSizes).peak);
  CHECK(figure(report, "live_before_bytes") == static_cast<double>(liveness(training, kSizes).peak));
  CHECK(figure(report, "live_after_bytes") == static_cast<double>(liveness(graph, kSizes).peak));
  std::int64_t saved = 0;
  for (const TensorId id : graph.tensors()) saved += graph.tensor(id).saved ? 1 : 0;
  CHECK(saved == 3);  // what layers 1 to 3 read; layer 0 reads the input
  PassReport coarse;
  run_pass("recompute", training, coarse, with("every", sim::Node::integer(2)));
  CHECK(figure(coarse, "regions") == 2);
  PassReport none;
  CHECK(to_string(run_pass("recompute", training, none, with("scope", sim::Node::string("block.*")))) ==
        to_string(training));
  CHECK(none.notes.size() == 1);
  CHECK_THROWS_WITH(run_pass("recompute", blocks(1), report),
                    "recompute: expected a training graph; run autodiff before");
}

TEST_CASE("Recomputing never raises the peak", "[prop][recompute]") {
  sim::RandomStream random(5, "recompute");
  for (int round = 0; round < 40; ++round) {
    const OpGraph forward = models::test::random_graph(random, {.ops = 24, .matmul = 0.4});
    if (forward.with_role(TensorRole::parameter).empty()) continue;
    OpGraph scoped = differentiate(forward, {.loss = LossKind::mean_square}).graph;
    std::int64_t n = 0;
    for (const OpId id : scoped.ops())
      if (scoped.op(id).phase == models::Phase::forward) scoped.annotate(id).scope = "layer." + std::to_string(n++ / 6);
    PassReport report;
    const OpGraph done = run_pass("recompute", scoped, report);
    CHECK(liveness(done, kSizes).peak <= liveness(scoped, kSizes).peak);
  }
}

TEST_CASE("Accumulation repeats forward and backward, and steps once", "[unit][accumulate]") {
  PassReport report;
  const OpGraph once = run_pass("autodiff", run_pass("amp", blocks(2, true), report), report);
  const OpGraph graph = run_pass("accumulate", once, report, with("micro_batches", sim::Node::integer(4)));
  const auto count = [](const OpGraph& g, OpKind kind) {
    std::int64_t n = 0;
    for (const OpId id : g.ops()) n += g.op(id).kind == kind ? 1 : 0;
    return n;
  };
  CHECK(count(graph, OpKind::matmul) == 4 * count(once, OpKind::matmul));
  CHECK(count(graph, OpKind::optimizer_step) == 8);
  // Residual sums of each micro-batch, and three additions for each of the eight gradients.
  CHECK(count(graph, OpKind::add) == 4 * count(once, OpKind::add) + 3 * 8);
  CHECK(graph.with_role(TensorRole::input).size() == 4);
  // Four weights are cast once, all other casts in every micro-batch.
  CHECK(count(graph, OpKind::cast) == 4 * (count(once, OpKind::cast) - 4) + 4);
  CHECK(graph.outputs().size() == once.outputs().size() + 3);
  CHECK_THROWS_WITH(run_pass("accumulate", blocks(1), report),
                    "accumulate: expected a training graph with optimizer steps; run autodiff before");
  CHECK(to_string(run_pass("accumulate", once, report, with("micro_batches", sim::Node::integer(1)))) ==
        to_string(once));
}

}  // namespace
}  // namespace orrery::policies::test_training_passes
