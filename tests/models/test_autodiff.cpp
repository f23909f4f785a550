// Structure of training graphs: work of the backward pass by hand, one gradient and one step a parameter, what is
// saved.
#include "models/autodiff/autodiff.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "models/builders/builder.hpp"
#include "models/graph/op_work.hpp"
#include "sim/base/document.hpp"
#include "tests/models/random_graph.hpp"

namespace orrery::models::test_autodiff {
namespace {

const SymExpr kBatch = SymExpr::dim("batch");

/// FLOPs of products in a phase.
SymExpr product_flops(const OpGraph& graph, Phase phase) {
  SymExpr sum = 0;
  for (const OpId id : graph.ops())
    if (graph.op(id).phase == phase) sum += work(graph, id).matrix_flops;
  return sum;
}

std::int64_t count(const OpGraph& graph, OpKind kind) {
  std::int64_t n = 0;
  for (const OpId id : graph.ops()) n += graph.op(id).kind == kind ? 1 : 0;
  return n;
}

/// What must hold of every training graph.
void check_training(const TrainingGraph& training) {
  const OpGraph& graph = training.graph;
  REQUIRE(verify(graph) == std::vector<std::string>{});
  std::set<TensorId> seen;
  for (const auto& [parameter, gradient] : training.gradients) {
    INFO(graph.tensor(parameter).name);
    REQUIRE(seen.insert(parameter).second);
    REQUIRE(graph.tensor(gradient).type == graph.tensor(parameter).type);
    REQUIRE(graph.tensor(gradient).shape.size() == graph.tensor(parameter).shape.size());
    for (std::size_t i = 0; i < graph.tensor(gradient).shape.size(); ++i) {
      const Order order = compare(graph.tensor(gradient).shape[i], graph.tensor(parameter).shape[i], graph.facts);
      REQUIRE((order != Order::less && order != Order::greater));
    }
    std::int64_t steps = 0;
    for (const OpId reader : graph.consumers(parameter)) steps += graph.op(reader).kind == OpKind::optimizer_step;
    REQUIRE(steps == 1);
    REQUIRE((!graph.producer(gradient) || graph.op(*graph.producer(gradient)).phase == Phase::backward));
  }
  REQUIRE(seen.size() + training.unreached.size() == graph.with_role(TensorRole::parameter).size());
  bool past_forward = false, past_backward = false;
  for (const OpId id : graph.ops()) {
    const OpNode& op = graph.op(id);
    past_forward = past_forward || op.phase != Phase::forward;
    past_backward = past_backward || op.phase == Phase::optimizer;
    REQUIRE((op.phase != Phase::forward || !past_forward));
    REQUIRE((op.phase != Phase::backward || !past_backward));
    for (const TensorId input : op.inputs) {  // available: made before
      const std::optional<OpId> maker = graph.producer(input);
      REQUIRE((!maker || *maker < id));
      const TensorId memory = storage_of(graph, input);
      const std::optional<OpId> owner = graph.producer(memory);
      if (op.phase == Phase::backward && owner && graph.op(*owner).phase == Phase::forward)
        REQUIRE(graph.tensor(memory).saved);
    }
  }
}

/// x [batch, 8] -> 16 -> relu -> 4, with biases.
OpGraph mlp() {
  OpGraph graph;
  graph.name = "mlp";
  const TensorId x = graph.input("x", {kBatch, 8}, ElementType::fp32);
  const TensorId w1 = graph.parameter("w1", {8, 16}, ElementType::fp32),
                 b1 = graph.parameter("b1", {16}, ElementType::fp32);
  const TensorId w2 = graph.parameter("w2", {16, 4}, ElementType::fp32),
                 b2 = graph.parameter("b2", {4}, ElementType::fp32);
  const TensorId h = graph.emit(OpKind::relu, {graph.emit(OpKind::matmul, {x, w1, b1}, {}, "up")}, {}, "relu");
  graph.mark_output(graph.emit(OpKind::matmul, {h, w2, b2}, {}, "down"));
  return graph;
}

TEST_CASE("An MLP's training graph is what one would write by hand", "[unit][autodiff]") {
  const TrainingGraph training = differentiate(mlp(), {.optimizer = OptimizerKind::adamw});
  check_training(training);
  // Forward 2 b (8*16 + 16*4); backward: twice that without the product for x, which nobody needs.
  CHECK(product_flops(training.graph, Phase::forward) == kBatch * 2 * (8 * 16 + 16 * 4));
  CHECK(product_flops(training.graph, Phase::backward) == kBatch * 2 * (8 * 16 + 2 * 16 * 4));
  // Optimizer: 16 FLOPs an element of 8*16 + 16 + 16*4 + 4 = 212 elements.
  SymExpr steps = 0;
  for (const OpId id : training.graph.ops())
    if (training.graph.op(id).phase == Phase::optimizer) steps += work(training.graph, id).flops();
  CHECK(steps == 212 * 16);
  CHECK(count(training.graph, OpKind::optimizer_step) == 4);
  CHECK(training.graph.with_role(TensorRole::state).size() == 8);
  std::vector<std::string> saved;
  for (const TensorId id : training.graph.tensors())
    if (training.graph.tensor(id).saved) saved.push_back(training.graph.tensor(id).name);
  CHECK(saved == std::vector<std::string>{"relu", "down"});  // the input of the second product, and the logits
  std::vector<std::string> backward;
  for (const OpId id : training.graph.ops())
    if (training.graph.op(id).phase == Phase::backward) backward.push_back(training.graph.op(id).name);
  CHECK(backward == std::vector<std::string>{"loss.grad0", "down.grad0", "down.grad1", "down.grad2", "relu.grad0",
                                             "up.grad0", "up.grad1"});
}

TEST_CASE("Optimizers differ in state, work and steps", "[unit][autodiff]") {
  const auto states = [](AutodiffOptions options) {
    const TrainingGraph training = differentiate(mlp(), options);
    check_training(training);
    return std::pair(training.graph.with_role(TensorRole::state).size(), count(training.graph, OpKind::optimizer_step));
  };
  using Figures = std::pair<std::size_t, std::int64_t>;
  CHECK(states({.optimizer = OptimizerKind::sgd}) == Figures{0, 4});
  CHECK(states({.optimizer = OptimizerKind::sgd_momentum}) == Figures{4, 4});
  CHECK(states({.optimizer = OptimizerKind::adam}) == Figures{8, 4});
  CHECK(states({.optimizer = OptimizerKind::adamw, .fused_step = true}) == Figures{8, 1});
  CHECK(states({.optimizer = OptimizerKind::adamw, .master_weights = true}) == Figures{8, 4});  // fp32 already

  const TrainingGraph none = differentiate(mlp(), {.optimizer = OptimizerKind::none});
  CHECK(none.graph.outputs().size() == 5);  // the loss and four gradients
  const auto step_work = [](bool fused) {
    SymExpr sum = 0;
    const TrainingGraph training = differentiate(mlp(), {.fused_step = fused});
    for (const OpId id : training.graph.ops())
      if (training.graph.op(id).phase == Phase::optimizer)
        sum += work(training.graph, id).bytes() * 1000 + work(training.graph, id).flops();
    return sum;
  };
  CHECK(step_work(true) == step_work(false));
}

TEST_CASE("Parameters of 16 bits may be updated through a copy in fp32", "[unit][autodiff]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 8}, ElementType::fp16);
  graph.mark_output(graph.emit(OpKind::matmul, {x, graph.parameter("w", {8, 4}, ElementType::fp16)}));
  const TrainingGraph training = differentiate(graph, {.optimizer = OptimizerKind::adam, .master_weights = true});
  check_training(training);
  // Reads 32 elements in 2 + 2 + 3*4 bytes, writes 2 + 3*4 bytes.
  const OpId step = static_cast<OpId>(training.graph.op_count() - 1);
  CHECK(work(training.graph, step).read_bytes == 32 * 16);
  CHECK(work(training.graph, step).write_bytes == 32 * 14);
}

TEST_CASE("What the loss does not reach has no gradient, and integers have none", "[unit][autodiff]") {
  OpGraph graph = mlp();
  graph.parameter("unused", {3}, ElementType::fp32);
  const TensorId side = graph.parameter("side", {kBatch, 4}, ElementType::fp32);
  graph.emit(OpKind::exp, {side});
  const TrainingGraph training = differentiate(graph);
  CHECK(training.unreached.size() == 2);
  CHECK(training.gradients.size() == 4);
  check_training(training);
}

TEST_CASE("A graph that ends in its loss keeps it; several outputs add up", "[unit][autodiff]") {
  OpGraph graph = mlp();
  const TensorId logits = graph.outputs().front();
  graph.mark_output(graph.emit(OpKind::reduce_mean, {logits}, {{"axes", std::vector<SymExpr>{0, 1}}}, "mine"));
  const TrainingGraph own = differentiate(graph);
  CHECK(own.graph.tensor(own.loss).name == "mine");
  CHECK(count(own.graph, OpKind::cross_entropy) == 0);

  OpGraph two = mlp();
  two.mark_output(*two.find_tensor("relu"));
  const TrainingGraph both = differentiate(two, {.loss = LossKind::sum});
  check_training(both);
  CHECK(both.graph.tensor(both.loss).name == "loss.sum");
}

TEST_CASE("Faults of differentiation name op and kind", "[unit][autodiff]") {
  const auto message = [](OpGraph& graph, TensorId out) -> std::string {
    graph.mark_output(out);
    try {
      differentiate(graph);
    } catch (const GraphError& error) {
      return error.what();
    }
    return "";
  };
  OpGraph quantised, cached, opaque, nothing;
  const TensorId q = quantised.parameter("w", {4, 4}, ElementType::fp16);
  const TensorId codes = quantised.emit(OpKind::quantise, {q}, {{"to", std::string("int8")}}, "q8");
  CHECK(message(quantised, codes) == "nothing to differentiate: no floating output depends on a parameter");
  const TensorId c = cached.parameter("w", {4, 4}, ElementType::fp16);
  CHECK(message(cached, cached.emit(OpKind::kv_write, {cached.input("cache", {8, 4}, ElementType::fp16), c}, {8, 4},
                                    ElementType::fp16, {}, "layer.0.cache")) ==
        "kv_write 'layer.0.cache': no gradient through a key-value cache; build the graph without one");
  const TensorId o = opaque.parameter("w", {4, 4}, ElementType::fp16);
  CHECK(message(opaque, opaque.emit(OpKind::custom, {o}, {4, 4}, ElementType::fp16, {}, "mystery")) ==
        "custom 'mystery': no gradient rule for this kind of op");
  CHECK(message(nothing, nothing.input("x", {4}, ElementType::fp16)) ==
        "nothing to differentiate: no floating output depends on a parameter");
}

TEST_CASE("Every builder's graph differentiates into a sound graph with its sizes kept", "[unit][autodiff][builders]") {
  BuilderRegistry registry("builder");
  register_builders(registry);
  for (const std::string& name : registry.names()) {
    INFO(name);
    sim::Faults faults;
    const OpGraph forward = registry.prepare(name, nullptr, {}, faults).make()->build();
    if (forward.with_role(TensorRole::parameter).empty()) continue;  // a simulator learns nothing
    const TrainingGraph training = differentiate(forward, {.optimizer = OptimizerKind::sgd});
    check_training(training);
    for (const Symbol symbol : training.graph.symbols()) CHECK(std::ranges::count(forward.symbols(), symbol) == 1);
    const SymExpr once = product_flops(training.graph, Phase::forward);
    // Each product has two of the same work behind it, but for those whose operand is an input of the model; fused
    // attention has five for two.
    const Order low = compare(product_flops(training.graph, Phase::backward), once, training.graph.facts);
    CHECK((low == Order::greater || low == Order::greater_equal || low == Order::unknown));
    CHECK(to_string(differentiate(forward, {.optimizer = OptimizerKind::sgd}).graph) == to_string(training.graph));
  }
}

TEST_CASE("Random graphs differentiate into sound graphs", "[prop][autodiff]") {
  sim::RandomStream random(11, "autodiff");
  for (int round = 0; round < 60; ++round) {
    OpGraph graph = test::random_graph(random, {.ops = 25, .matmul = 0.4});
    if (graph.with_role(TensorRole::parameter).empty()) continue;
    const TrainingGraph training = differentiate(graph, {.loss = LossKind::mean_square, .fused_step = false});
    check_training(training);
  }
}

}  // namespace
}  // namespace orrery::models::test_autodiff
