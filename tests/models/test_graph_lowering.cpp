// Ops to kernels: which elementwise ops go one by one, and the kernels of an optimizer's step.
#include <catch2/catch.hpp>

#include "models/autodiff/autodiff.hpp"
#include "models/graph/graph_lowering.hpp"

namespace orrery::models::test_graph_lowering {
namespace {

const Bindings kSizes{{"batch", 4}};
const SymExpr kBatch = SymExpr::dim("batch");

hw::Streaming last_pass(const OpGraph& graph) {
  const GraphLaunches launches = lower(graph, kSizes);
  REQUIRE(!launches.kernels.empty());
  return std::get<hw::Streaming>(launches.kernels.back().kernel.shape);
}

}  // namespace

TEST_CASE("Broadcast and sliced operands and casts to more bits go one by one", "[unit]") {
  const auto pass_of = [](auto&& make) {
    OpGraph graph;
    const TensorId x = graph.input("x", {kBatch, 8, 32}, ElementType::fp16);
    graph.mark_output(make(graph, x));
    return last_pass(graph);
  };
  const auto same = pass_of([](OpGraph& g, TensorId x) { return g.emit(OpKind::add, {x, x}); });
  CHECK(same.pass == hw::Pass::elementwise);
  CHECK(same.rows == 0);
  const auto row = pass_of([](OpGraph& g, TensorId x) {
    return g.emit(OpKind::mul, {x, g.parameter("w", {32}, ElementType::fp16)});
  });
  CHECK(row.pass == hw::Pass::one_by_one);
  CHECK(row.rows == 4 * 8 * 32);  // elements
  const auto number = pass_of([](OpGraph& g, TensorId x) {
    return g.emit(OpKind::mul, {x, g.parameter("one", {1}, ElementType::fp16)});
  });
  CHECK(number.pass == hw::Pass::elementwise);
  const auto half = pass_of([](OpGraph& g, TensorId x) {
    const TensorId part = g.emit(OpKind::slice, {x}, {kBatch, 8, 16}, ElementType::fp16);
    return g.emit(OpKind::neg, {part});
  });
  CHECK(half.pass == hw::Pass::one_by_one);
  const auto first = pass_of([](OpGraph& g, TensorId x) {  // whole rows of the first axis lie side by side
    return g.emit(OpKind::neg, {g.emit(OpKind::slice, {x}, {SymExpr(2), 8, 32}, ElementType::fp16)});
  });
  CHECK(first.pass == hw::Pass::elementwise);
  const auto cast = [&](const char* to, ElementType type) {
    return pass_of([&](OpGraph& g, TensorId x) {
      return g.emit(OpKind::cast, {x}, {kBatch, 8, 32}, type, {{"to", std::string(to)}});
    });
  };
  CHECK(cast("fp32", ElementType::fp32).pass == hw::Pass::one_by_one);
  CHECK(cast("fp8", ElementType::fp8).pass == hw::Pass::elementwise);
  const auto loss = pass_of([](OpGraph& g, TensorId x) {  // a kernel of its own, whatever its operands' sizes
    const TensorId labels = g.input("labels", {kBatch, 8}, ElementType::int64);
    const TensorId dy = g.input("dy", {1}, ElementType::fp16);
    return g.emit(OpKind::cross_entropy_grad, {x, labels, dy}, {kBatch, 8, 32}, ElementType::fp16);
  });
  CHECK(loss.pass == hw::Pass::elementwise);
  const auto fused = pass_of([](OpGraph& g, TensorId x) {  // a compiler's code for the operation knows its places
    return g.emit(OpKind::mul, {x, g.parameter("w", {32}, ElementType::fp16)}, {{"pass", std::string("compiled")}});
  });
  CHECK(fused.pass == hw::Pass::compiled);
}

TEST_CASE("An eager loss moves its logits as several kernels do", "[unit]") {
  // 32 rows of 4,096 logits in fp32, 512 KiB; the scratch is as large.
  const auto kernels = [](bool eager) {
    OpGraph graph;
    const TensorId x = graph.parameter("x", {32, 4096}, ElementType::fp32);
    const TensorId labels = graph.input("labels", {32}, ElementType::int64);
    const TensorId loss = graph.emit(OpKind::cross_entropy, {x, labels}, {}, ElementType::fp32);
    if (eager) graph.annotate(*graph.producer(loss)).set("scratch", graph.tensor(x).bytes());
    graph.mark_output(loss);
    const TrainingGraph step = differentiate(graph, {.optimizer = OptimizerKind::none});
    std::vector<hw::Streaming> passes;
    for (const GraphKernel& launch : lower(step.graph, kSizes).kernels)
      passes.push_back(std::get<hw::Streaming>(launch.kernel.shape));
    return passes;
  };
  constexpr std::int64_t logits = 32 * 4096 * 4, labels = 32 * 8;
  const auto fused = kernels(false), eager = kernels(true);
  REQUIRE(fused.size() == 2);
  REQUIRE(eager.size() == 2);
  CHECK(fused[0].read_bytes == logits + labels);
  CHECK(fused[0].write_bytes == 4);
  CHECK(fused[1].write_bytes == logits);
  CHECK(eager[0].write_bytes == logits + 4);  // the logarithms
  CHECK(eager[0].rows == 32);                 // row by row: a softmax that reads its rows again
  CHECK(eager[1].read_bytes == fused[1].read_bytes + 2 * logits);
  CHECK(eager[1].write_bytes == 2 * logits);  // of the likelihood, of the logits
}

TEST_CASE("An optimizer's step is one kernel, or its casts are kernels of their own", "[unit]") {
  // One weight of 64 x 32 = 2,048 parameters in 16 bits, gradients in 16 bits, Adam's two moments and a copy in fp32.
  const auto kernels = [](std::int64_t casts) {
    OpGraph graph;
    const TensorId x = graph.input("x", {kBatch, 64}, ElementType::fp16);
    const TensorId w = graph.parameter("w", {64, 32}, ElementType::fp16);
    const TensorId y = graph.emit(OpKind::matmul, {x, w});
    graph.mark_output(graph.emit(OpKind::reduce_mean, {y}, {{"axes", std::vector<SymExpr>{0, 1}}}));
    const TrainingGraph step =
        differentiate(graph, {.optimizer = OptimizerKind::adam, .master_weights = true, .step_casts = casts});
    std::vector<hw::Streaming> passes;
    for (const GraphKernel& launch : lower(step.graph, kSizes).kernels)
      if (step.graph.op(launch.op).phase == Phase::optimizer)
        passes.push_back(std::get<hw::Streaming>(launch.kernel.shape));
    return passes;
  };
  constexpr std::int64_t n = 2048;
  const auto one = kernels(0);
  REQUIRE(one.size() == 1);
  CHECK(one[0].pass == hw::Pass::tensor_of_many);
  CHECK(one[0].rows == n);
  CHECK(one[0].read_bytes == (2 + 2 + 12) * n);  // weight, gradient, moments and copy
  CHECK(one[0].write_bytes == (2 + 12) * n);
  const auto three = kernels(2);
  REQUIRE(three.size() == 3);
  CHECK(three[0].pass == hw::Pass::one_by_one);
  CHECK(three[0].read_bytes == 2 * n);
  CHECK(three[0].write_bytes == 4 * n);
  CHECK(three[0].rows == n);
  CHECK(three[1].pass == hw::Pass::tensor_of_many);
  CHECK(three[1].read_bytes == (4 + 12) * n);  // the gradient in fp32, and no weight of 16 bits
  CHECK(three[1].write_bytes == 12 * n);
  CHECK(three[2].pass == hw::Pass::elementwise);
  CHECK(three[2].read_bytes == 4 * n);
  CHECK(three[2].write_bytes == 2 * n);
  const auto two = kernels(1);  // gradients are in fp32 already
  REQUIRE(two.size() == 2);
  CHECK(two[0].read_bytes == three[1].read_bytes);
  CHECK(two[1].write_bytes == 2 * n);
}

}  // namespace orrery::models::test_graph_lowering
