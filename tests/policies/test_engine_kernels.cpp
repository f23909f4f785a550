// The pass engine_kernels: what becomes one kernel of an inference engine's library, and what does not.
#include "policies/fusion/engine_kernels.hpp"

#include "models/graph/graph_lowering.hpp"
#include "tests/models/builder_support.hpp"
#include "tests/policies/fusion_support.hpp"

namespace test_engine_kernels {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;
using models::ElementType;
using models::OpGraph;
using models::OpId;
using models::OpKind;
using models::OpNode;
using models::SymExpr;
using models::TensorId;

namespace {

constexpr const char* kDecoder =
    R"({"layers": 3, "hidden": 256, "heads": 4, "kv_heads": 2, "head_dim": 64, "intermediate": 512, "vocab": 1000,
        "tied": false, "cache": true, "merged": true, "sample": true, "dtype": "fp16"})";

models::Bindings step() {
  return {{"batch", 5}, {"tokens", 1}, {"past", 99}};
}

/// Kernels of a class in the order of execution.
std::vector<hw::Streaming> passes(const OpGraph& graph, hw::OpClass op) {
  std::vector<hw::Streaming> all;
  for (const models::GraphKernel& launch : models::lower(graph, step()).kernels)
    if (launch.kernel.op == op) all.push_back(std::get<hw::Streaming>(launch.kernel.shape));
  return all;
}

}  // namespace

TEST_CASE("a decoder's rotations, gates and cache writes become a kernel each", "[unit]") {
  const OpGraph graph = models::test::built("decoder", kDecoder);
  EngineKernels made;
  const OpGraph engine = with_engine_kernels(graph, made);
  CHECK(made.rotations == 3);
  CHECK(made.gates == 3);
  CHECK(made.cache_writes == 3);
  check_fusion(graph, engine, {step(), {{"batch", 2}, {"tokens", 40}, {"past", 0}}});
  CHECK(count_launches(graph) - count_launches(engine) == 9);
  // Five rows: queries and keys of 4 + 2 heads of 64, two bytes each, and one row of angles.
  const std::vector<hw::Streaming> rotations = passes(engine, hw::OpClass::rope);
  REQUIRE(rotations.size() == 3);
  CHECK(rotations[0].pass == hw::Pass::rope);
  CHECK(rotations[0].rows == 5);
  CHECK(rotations[0].read_bytes == 5 * 6 * 64 * 2 + 64 * 2);
  CHECK(rotations[0].write_bytes == 5 * 6 * 64 * 2);
  // Both halves of 512 are read, one is written; silu takes four operations an element and the product one.
  const std::vector<hw::Streaming> gates = passes(engine, hw::OpClass::activation);
  REQUIRE(gates.size() == 3);
  CHECK(gates[0].pass == hw::Pass::gated_activation);
  CHECK(gates[0].rows == 5);
  CHECK(gates[0].read_bytes == 5 * 2 * 512 * 2);
  CHECK(gates[0].write_bytes == 5 * 512 * 2);
  CHECK(gates[0].flops == 5 * 512 * 5);
  const std::vector<hw::Streaming> writes = passes(engine, hw::OpClass::kv_write);
  REQUIRE(writes.size() == 3);
  CHECK(writes[0].read_bytes == 5 * 2 * 2 * 64 * 2);
  CHECK(writes[0].write_bytes == writes[0].read_bytes);
  // The choice of the next token reads all logits.
  REQUIRE(passes(engine, hw::OpClass::sampling).size() == 1);
  CHECK(passes(engine, hw::OpClass::sampling)[0].read_bytes == 5 * 1000 * 2);
  // A second time there is nothing left to do.
  EngineKernels again;
  CHECK(to_string(with_engine_kernels(engine, again)) == to_string(engine));
  CHECK(again.gates == 0);
}

TEST_CASE("rows of a prompt are its tokens, whatever the heads", "[unit]") {
  EngineKernels made;
  const OpGraph engine = with_engine_kernels(models::test::built("decoder", kDecoder), made);
  for (const models::GraphKernel& launch : models::lower(engine, {{"batch", 2}, {"tokens", 40}, {"past", 7}}).kernels)
    if (launch.kernel.op == hw::OpClass::rope) CHECK(std::get<hw::Streaming>(launch.kernel.shape).rows == 80);
}

TEST_CASE("a gate that others read, and rotations that follow each other, stay as they are", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {SymExpr::dim("batch"), 4, SymExpr::dim("tokens"), 64}, ElementType::fp16);
  const TensorId angles = graph.input("angles", {SymExpr::dim("tokens"), 64}, ElementType::fp16);
  const TensorId silu = graph.emit(OpKind::silu, {x});
  const TensorId gate = graph.emit(OpKind::mul, {silu, x});
  const TensorId first = graph.emit(OpKind::rope, {gate, angles});
  const TensorId scaled = graph.emit(OpKind::scale, {first});
  const TensorId second = graph.emit(OpKind::rope, {scaled, angles});
  graph.mark_output(second);
  graph.mark_output(silu);
  EngineKernels made;
  CHECK(to_string(with_engine_kernels(graph, made)) == to_string(graph));
  CHECK(made.rotations + made.gates + made.cache_writes == 0);
}

TEST_CASE("engine kernels on random graphs keep what they compute", "[prop]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    sim::RandomStream random(seed, "engine");
    const OpGraph graph = models::test::random_graph(random, {.ops = 60});
    EngineKernels made;
    check_fusion(graph, with_engine_kernels(graph, made), {});
  }
}

namespace {

/// A router of 8 tokens to two of four experts, rows copied to them, a product of each, and their weighted sum.
struct Experts {
  OpGraph graph;
  TensorId x = graph.input("x", {8, 64}, ElementType::fp16);
  std::vector<TensorId> routed;
  TensorId rows{}, product{};

  explicit Experts(OpKind chooser = OpKind::router) {
    OpNode router;
    router.kind = chooser;
    router.inputs = {graph.input("scores", {8, 4}, ElementType::fp16)};
    router.scope = "layer.0";
    router.op_class = hw::OpClass::router;
    routed = graph
                 .op(graph.add(std::move(router), {{.shape = {8, 2}, .type = ElementType::fp32},
                                                   {.shape = {8, 2}, .type = ElementType::int32}}))
                 .outputs;
    rows = graph.emit(OpKind::gather, {x, routed[1]}, {16, 64}, ElementType::fp16);
    const OpId gather = *graph.producer(rows);
    graph.annotate(gather).scope = "layer.0.experts";
    graph.annotate(gather).op_class = hw::OpClass::gather;
    product = times(rows);
  }
  TensorId weights(std::vector<SymExpr> shape) {
    return graph.parameter("w" + std::to_string(graph.tensor_count()), std::move(shape), ElementType::fp16);
  }
  TensorId times(TensorId of) {
    return graph.emit(OpKind::grouped_matmul, {of, weights({4, 64, 32})}, {16, 32}, ElementType::fp16);
  }
  OpGraph done() {
    graph.mark_output(graph.emit(OpKind::combine, {product, routed[0], routed[1]}, {8, 32}, ElementType::fp16));
    return graph;
  }
  /// How many rows are sorted in place of copied.
  std::int64_t sorts() {
    EngineKernels made;
    const OpGraph before = done();
    CHECK(models::verify(with_engine_kernels(before, made)) == models::verify(before));
    return made.expert_sorts;
  }
};

const models::OpNode& only(const OpGraph& graph, OpKind kind) {
  const models::OpNode* found = nullptr;
  for (const models::OpId id : graph.ops())
    if (graph.op(id).kind == kind) {
      REQUIRE(found == nullptr);
      found = &graph.op(id);
    }
  REQUIRE(found != nullptr);
  return *found;
}

}  // namespace

TEST_CASE("rows copied to experts become a sort of the choices, by which the products pick their rows", "[unit]") {
  Experts experts;
  const OpGraph graph = experts.done();
  EngineKernels made;
  const OpGraph engine = with_engine_kernels(graph, made);
  CHECK(models::verify(engine).empty());
  CHECK(made.expert_sorts == 1);
  CHECK(engine.op_count() == graph.op_count());
  const models::OpNode& sort = only(engine, OpKind::custom);
  CHECK(sort.dialect == "engine");
  CHECK(sort.text("pass") == "expert_sort");
  CHECK(sort.expr("rows", 0) == SymExpr(8));
  CHECK(sort.scope == "layer.0.experts");
  CHECK(sort.op_class == hw::OpClass::gather);
  CHECK(engine.tensor(sort.outputs.front()).type == ElementType::int32);
  CHECK(engine.tensor(sort.outputs.front()).shape == std::vector<SymExpr>{8, 2});
  const models::OpNode& product = only(engine, OpKind::grouped_matmul);
  REQUIRE(product.inputs.size() == 3);
  CHECK(engine.tensor(product.inputs[0]).name == "x");  // before it was copied
  CHECK(product.inputs[2] == sort.outputs.front());
  CHECK(product.integer("indexed", 0) == 1);
  const models::OpNode& sum = only(engine, OpKind::combine);
  CHECK(sum.dialect == "engine");
  CHECK(sum.text("pass") == "expert_sum");
  CHECK(sum.expr("rows", 0) == SymExpr(16));
  PassReport report;
  apply("engine_kernels", graph, {}, "{}", &report);
  CHECK(figure(report, "expert_sorts") == 1);
  CHECK(figure(report, "gates") == 0);
}

TEST_CASE("rows are copied where anything but the experts' products reads them", "[unit]") {
  CHECK(Experts{}.sorts() == 1);
  CHECK(Experts{OpKind::custom}.sorts() == 0);  // nobody's choice
  Experts two;
  two.graph.mark_output(two.times(two.rows));
  CHECK(two.sorts() == 1);  // both products pick
  Experts given;
  given.graph.mark_output(given.rows);
  CHECK(given.sorts() == 0);
  Experts read;
  read.graph.mark_output(read.graph.emit(OpKind::relu, {read.rows}));
  CHECK(read.sorts() == 0);
  Experts biased;  // a product with a third operand
  biased.graph.mark_output(biased.graph.emit(OpKind::grouped_matmul,
                                             {biased.rows, biased.weights({4, 64, 32}), biased.weights({4, 32})},
                                             {16, 32}, ElementType::fp16));
  CHECK(biased.sorts() == 0);
  Experts second;  // as the right operand
  second.graph.mark_output(second.graph.emit(OpKind::grouped_matmul,
                                             {second.graph.input("y", {16, 16}, ElementType::fp16), second.rows},
                                             {16, 64}, ElementType::fp16));
  CHECK(second.sorts() == 0);
  Experts square;  // as both
  square.graph.mark_output(
      square.graph.emit(OpKind::grouped_matmul, {square.rows, square.rows}, {16, 64}, ElementType::fp16));
  CHECK(square.sorts() == 0);
}

TEST_CASE("pairs of rotations and of writes stand in one module, of one table of angles", "[unit]") {
  const auto made = [](const char* first, const char* second, bool one_table) {
    OpGraph graph;
    const std::vector<SymExpr> shape{2, 4, 16, 8};
    const TensorId angles = graph.input("angles", {16, 8}, ElementType::fp16),
                   other = graph.input("other", {16, 8}, ElementType::fp16);
    int i = 0;
    for (const char* scope : {first, second}) {
      graph.set_scope(scope);
      const TensorId x = graph.input("x" + std::to_string(i), shape, ElementType::fp16);
      const TensorId cache = graph.input("cache" + std::to_string(i), shape, ElementType::fp16);
      const TensorId turned = graph.emit(OpKind::rope, {x, i == 0 || one_table ? angles : other});
      graph.mark_output(graph.emit(OpKind::kv_write, {cache, turned}, shape, ElementType::fp16));
      ++i;
    }
    EngineKernels kernels;
    static_cast<void>(with_engine_kernels(graph, kernels));
    return std::pair(kernels.rotations, kernels.cache_writes);
  };
  using Made = std::pair<std::int64_t, std::int64_t>;
  CHECK(made("layer.0", "layer.0", true) == Made{1, 1});
  CHECK(made("layer.0", "layer.1", true) == Made{0, 0});
  CHECK(made("layer.0", "layer.0", false) == Made{0, 1});
}

TEST_CASE("rows of a kernel are those of its last axis, heads not counted", "[unit]") {
  // silu times a half, of two, three and four axes: 8, 2 x 8 and, of [batch, heads, tokens, width], 2 x 8 rows.
  for (const std::vector<SymExpr>& shape :
       {std::vector<SymExpr>{8, 64}, std::vector<SymExpr>{2, 8, 64}, std::vector<SymExpr>{2, 4, 8, 64}}) {
    OpGraph graph;
    const TensorId x = graph.input("x", shape, ElementType::fp16), y = graph.input("y", shape, ElementType::fp16);
    graph.mark_output(graph.emit(OpKind::mul, {y, graph.emit(OpKind::silu, {x})}));
    EngineKernels made;
    const OpGraph engine = with_engine_kernels(graph, made);
    CHECK(made.gates == 1);
    const models::OpNode& gate = only(engine, OpKind::fused);
    CHECK(gate.dialect == "engine");
    CHECK(gate.text("pass") == "gated_activation");
    CHECK(gate.expr("rows", 0) == SymExpr(shape.size() == 2 ? 8 : 16));
  }
}

}  // namespace test_engine_kernels
