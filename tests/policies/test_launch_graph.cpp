// What fusers decide on: units and the edges between them, groups as fused ops, launches counted, and prices
// remembered.
#include "policies/fusion/launch_graph.hpp"

#include <functional>

#include "models/graph/graph_lowering.hpp"
#include "policies/fusion/loops.hpp"
#include "policies/fusion/prices.hpp"
#include "tests/policies/fusion_support.hpp"

namespace test_launch_graph {

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
using Places = std::vector<std::int32_t>;

namespace {

TensorId input(OpGraph& graph, const char* name, std::vector<SymExpr> shape = {64}) {
  return graph.input(name, std::move(shape), ElementType::fp16);
}
TensorId view(OpGraph& graph, OpKind kind, TensorId of, std::vector<SymExpr> shape) {
  return graph.emit(kind, {of}, std::move(shape), ElementType::fp16);
}

std::vector<OpKind> kinds(const OpGraph& graph) {
  std::vector<OpKind> all;
  for (const OpId id : graph.ops()) all.push_back(graph.op(id).kind);
  return all;
}

/// The region of the only fused op.
const OpGraph& region(const OpGraph& graph) {
  const OpGraph* found = nullptr;
  for (const OpId id : graph.ops())
    if (graph.op(id).kind == OpKind::fused) {
      REQUIRE(found == nullptr);
      found = graph.op(id).regions.front().get();
    }
  REQUIRE(found != nullptr);
  return *found;
}

/// An op of one region, given twice for a branch.
TensorId structured(OpGraph& graph, OpKind kind, TensorId x, const OpGraph& body, const OpGraph* other = nullptr) {
  OpNode node;
  node.kind = kind;
  node.inputs = {x};
  node.regions = {std::make_shared<const OpGraph>(body)};
  if (other != nullptr) node.regions.push_back(std::make_shared<const OpGraph>(*other));
  if (kind == OpKind::loop) node.set("trips", SymExpr(3));
  return graph.op(graph.add(std::move(node), {graph.tensor(x)})).outputs.front();
}

/// `ops` times relu over 64 elements.
OpGraph chain(int ops) {
  OpGraph graph;
  TensorId x = input(graph, "x");
  for (int i = 0; i < ops; ++i) x = graph.emit(OpKind::relu, {x});
  graph.mark_output(x);
  return graph;
}

}  // namespace

TEST_CASE("units are ops that are no views, edges look through views", "[unit]") {
  OpGraph graph;
  const TensorId x = input(graph, "x");
  const TensorId a = graph.emit(OpKind::relu, {x});                                        // op 0, unit 0
  const TensorId whole = view(graph, OpKind::reshape, a, {8, 8});                          // op 1
  const TensorId turned = view(graph, OpKind::transpose, whole, {8, 8});                   // op 2
  const TensorId part = view(graph, OpKind::slice, a, {32});                               // op 3
  const TensorId wide = view(graph, OpKind::expand, part, {2, 32});                        // op 4
  const TensorId flat = view(graph, OpKind::reshape, wide, {64});                          // op 5
  const TensorId b = graph.emit(OpKind::exp, {turned});                                    // op 6, unit 1
  const TensorId c = graph.emit(OpKind::sub, {x, flat});                                   // op 7, unit 2
  graph.mark_output(graph.emit(OpKind::mul, {view(graph, OpKind::reshape, b, {64}), c}));  // ops 8 and 9, unit 3
  const LaunchGraph launches = launch_graph(graph);
  CHECK(launches.size() == 4);
  CHECK(launches.ops == std::vector<OpId>{OpId{0}, OpId{6}, OpId{7}, OpId{9}});
  CHECK(launches.unit_of == Places{0, -1, -1, -1, -1, -1, 1, 2, -1, 3});
  CHECK(launches.first_in == Places{0, 0, 1, 2, 4});
  CHECK(launches.out == std::vector<Places>{{0, 1}, {2}, {3}, {}});
  CHECK(launches.in(0).empty());
  CHECK(launches.in(3).size() == 2);
  const auto edge = [&](std::size_t i) { return launches.edges.at(i); };
  CHECK(edge(0).from == 0);
  CHECK(edge(0).to == 1);
  CHECK(edge(0).slot == 0);
  CHECK(edge(0).output == 0);
  CHECK(edge(0).made == a);
  CHECK(edge(0).read == turned);
  CHECK(edge(0).plain);
  CHECK(edge(1).to == 2);
  CHECK(edge(1).slot == 1);  // x is no edge: nobody makes it
  CHECK(edge(1).made == a);
  CHECK(edge(1).read == flat);
  CHECK_FALSE(edge(1).plain);
  CHECK(edge(2).slot == 0);
  CHECK(edge(2).made == b);
  CHECK(edge(2).plain);
  CHECK(edge(3).slot == 1);
  CHECK(edge(3).from == 2);
  CHECK(edge(3).made == c);
  CHECK(edge(3).read == c);
  CHECK(edge(3).plain);
}

TEST_CASE("an edge says which output it is, and one op may give several edges to another", "[unit]") {
  OpGraph graph;
  OpNode maker;
  maker.inputs = {input(graph, "x")};
  const OpId made = graph.add(std::move(maker), {{.shape = {64}}, {.shape = {64}}, {.shape = {64}}});
  const std::vector<TensorId> outputs = graph.op(made).outputs;
  graph.mark_output(graph.emit(OpKind::sub, {outputs[2], outputs[1]}));
  const LaunchGraph launches = launch_graph(graph);
  REQUIRE(launches.edges.size() == 2);
  CHECK(launches.edges[0].output == 2);
  CHECK(launches.edges[0].slot == 0);
  CHECK(launches.edges[1].output == 1);
  CHECK(launches.edges[1].slot == 1);
  CHECK(launches.out == std::vector<Places>{{0, 1}, {}});
}

TEST_CASE("a group of one unit is left alone, and without groups the graph stays", "[unit]") {
  const OpGraph graph = chain(4);
  const LaunchGraph launches = launch_graph(graph);
  CHECK(to_string(contract(graph, launches, {-1, -1, -1, -1})) == to_string(graph));
  CHECK(to_string(contract(graph, launches, {0, 1, 2, 3})) == to_string(graph));
  const OpGraph fused = contract(graph, launches, {0, 7, 7, -1});
  CHECK(kinds(fused) == std::vector<OpKind>{OpKind::relu, OpKind::fused, OpKind::relu});
  CHECK(region(fused).op_count() == 2);
  CHECK_THROWS_WITH(contract(graph, launches, {0, -1, 0, -1}),
                    "fusing these groups would make a cycle: a path leaves one and comes back");
}

TEST_CASE("a label names its own group's op and no other", "[unit]") {
  const OpGraph graph = chain(6);
  const LaunchGraph launches = launch_graph(graph);
  const std::vector<GroupLabel> labels{{.name = "first", .dialect = "lib", .attributes = {{"width", SymExpr(3)}}}, {}};
  const OpGraph fused = contract(graph, launches, {0, 0, 1, 1, 2, 2}, labels);
  REQUIRE(fused.op_count() == 3);
  CHECK(fused.op(OpId{0}).name == "first_0");
  CHECK(fused.op(OpId{0}).dialect == "lib");
  CHECK(fused.op(OpId{0}).integer("width", 0) == 3);
  const OpGraph plain = contract(graph, launches, {0, 0, 1, 1, 2, 2});
  for (const OpId id : {OpId{1}, OpId{2}}) {  // an empty label, and a group beyond the labels
    CHECK(fused.op(id).name == plain.op(id).name);
    CHECK(fused.op(id).dialect.empty());
    CHECK(fused.op(id).attributes.empty());
  }
}

TEST_CASE("a view belongs to a group that alone reads it, and to none otherwise", "[unit]") {
  const auto fused = [](const std::function<void(OpGraph&, TensorId)>& rest, const UnitGroups& groups) {
    OpGraph graph;
    rest(graph, view(graph, OpKind::reshape, input(graph, "x"), {8, 8}));
    const OpGraph result = contract(graph, launch_graph(graph), groups);
    check_fusion(graph, result, {{}});
    return result;
  };
  const auto two = [](OpGraph& graph, TensorId seen) {
    graph.mark_output(graph.emit(OpKind::sub, {seen, graph.emit(OpKind::exp, {seen})}));
  };
  CHECK(region(fused(two, {0, 0})).op_count() == 3);
  const auto also = [&](OpGraph& graph, TensorId seen) {
    two(graph, seen);
    graph.mark_output(graph.emit(OpKind::tanh, {seen}));
  };
  CHECK(region(fused(also, {0, 0, -1})).op_count() == 2);
  CHECK(region(fused(also, {0, 0, 0})).op_count() == 4);
  const auto given = [&](OpGraph& graph, TensorId seen) {
    two(graph, seen);
    graph.mark_output(seen);
  };
  CHECK(region(fused(given, {0, 0})).op_count() == 2);
  const auto unread = [&](OpGraph& graph, TensorId seen) {
    view(graph, OpKind::reshape, seen, {64});  // nobody reads it
    two(graph, seen);
  };
  CHECK(region(fused(unread, {0, 0})).op_count() == 2);
}

TEST_CASE("launches count ops that share a mark once, a loop as one trip, a branch as its first side", "[unit]") {
  OpGraph graph = chain(5);
  CHECK(count_launches(graph) == 5);
  const auto mark = [&](std::int32_t op, std::string_view name, std::int64_t number) {
    graph.annotate(OpId{op}).set(name, SymExpr(number));
  };
  mark(0, kStackMark, 0);
  mark(1, kStackMark, 0);
  CHECK(count_launches(graph) == 4);
  mark(2, kCaptureMark, 0);  // another kind of mark, though the number is the same
  CHECK(count_launches(graph) == 4);
  mark(3, kCaptureMark, 0);
  CHECK(count_launches(graph) == 3);
  mark(4, kCaptureMark, 1);
  CHECK(count_launches(graph) == 3);
  mark(3, kStackMark, 5);  // of both marks the capture counts
  CHECK(count_launches(graph) == 3);
  CHECK(count_kernels(graph) == 5);

  OpGraph outer;
  const OpGraph three = chain(3), four = chain(4);
  TensorId x = input(outer, "x");
  x = structured(outer, OpKind::loop, x, three);
  x = structured(outer, OpKind::branch, x, four, &three);
  x = view(outer, OpKind::reshape, x, {8, 8});  // launches nothing
  outer.mark_output(outer.emit(OpKind::exp, {x}));
  CHECK(count_launches(outer) == 3 + 4 + 1);
  CHECK(count_kernels(outer) == 3 + 4 + 1);
  OpGraph body = chain(3);
  for (const OpId id : body.ops()) body.annotate(id).set(kStackMark, SymExpr(2));
  OpGraph marked;
  marked.mark_output(structured(marked, OpKind::loop, input(marked, "x"), body));
  CHECK(count_launches(marked) == 1);
  CHECK(count_kernels(marked) == 3);
}

TEST_CASE("roles of units in a loop follow from their kinds", "[unit]") {
  const auto role = [](OpKind kind) {
    OpNode op;
    op.kind = kind;
    op.outputs = {TensorId{0}};
    return loop_role(op);
  };
  for (const OpKind kind : {OpKind::relu, OpKind::add, OpKind::concat, OpKind::embedding, OpKind::rope, OpKind::copy})
    CHECK(role(kind) == LoopRole::pointwise);
  for (const OpKind kind : {OpKind::softmax, OpKind::reduce_sum, OpKind::layer_norm, OpKind::softmax_grad})
    CHECK(role(kind) == LoopRole::row);
  for (const OpKind kind : {OpKind::matmul, OpKind::grouped_matmul, OpKind::conv2d})
    CHECK(role(kind) == LoopRole::product);
  for (const OpKind kind :
       {OpKind::layer_norm_grad, OpKind::rms_norm_grad, OpKind::batch_norm, OpKind::batch_norm_grad, OpKind::group_norm,
        OpKind::group_norm_grad, OpKind::cross_entropy, OpKind::sampling, OpKind::router, OpKind::max_pool2d,
        OpKind::avg_pool2d, OpKind::attention, OpKind::spmm, OpKind::custom, OpKind::all_reduce, OpKind::loop})
    CHECK(role(kind) == LoopRole::none);
  OpNode sink;
  sink.kind = OpKind::relu;
  CHECK(loop_role(sink) == LoopRole::none);  // it makes nothing
}

TEST_CASE("a loop's domain is the number of elements that it runs over", "[unit]") {
  OpGraph graph;
  const SymExpr batch = SymExpr::dim("batch");
  const TensorId x = input(graph, "x", {batch, 64}), y = input(graph, "y", {64, batch}), z = input(graph, "z", {128});
  graph.mark_output(graph.emit(OpKind::relu, {x}));                                                      // 0
  graph.mark_output(graph.emit(OpKind::exp, {y}));                                                       // 1
  graph.mark_output(graph.emit(OpKind::reduce_sum, {x}, {{"axes", std::vector<SymExpr>{-1}}}));          // 2
  graph.mark_output(graph.emit(OpKind::matmul, {x, graph.parameter("w", {64, 2}, ElementType::fp16)}));  // 3
  graph.mark_output(graph.emit(OpKind::custom, {x}, {batch}, ElementType::fp16));                        // 4
  graph.mark_output(graph.emit(OpKind::neg, {z}));                                                       // 5
  const LaunchGraph launches = launch_graph(graph);
  Domains symbolic(graph, nullptr);
  const std::vector<Loop> loops = loops_of(graph, launches, symbolic);
  CHECK(loops[0].domain == loops[1].domain);  // batch x 64, either way round
  CHECK(loops[2].domain == loops[0].domain);  // what it reads
  CHECK(loops[2].made != loops[2].domain);
  CHECK(loops[0].made == loops[0].domain);
  CHECK(loops[3].domain != loops[0].domain);  // batch x 2: what it makes
  CHECK(loops[3].domain == loops[3].made);
  CHECK(loops[4].domain == -1);
  CHECK(loops[4].made == -1);
  CHECK(loops[5].domain != loops[3].domain);
  CHECK(loops[0].rows == -1);
  CHECK(loops[2].rows == 0);
  const models::Bindings bindings{{"batch", 64}};
  Domains values(graph, &bindings);  // 4096, and 128 for both the product and z
  const std::vector<Loop> bound = loops_of(graph, launches, values);
  CHECK(bound[5].domain == bound[3].domain);
  CHECK(bound[0].domain == bound[1].domain);
  CHECK(bound[0].domain != bound[3].domain);
  // Bytes: batch x 64 of two each, and so on by hand.
  const std::vector<std::int64_t> bytes = tensor_bytes(graph, bindings);
  CHECK(bytes[index(x)] == 64 * 64 * 2);
  CHECK(bytes[index(z)] == 128 * 2);
}

TEST_CASE("without a device a byte is a picosecond and a launch a microsecond", "[unit]") {
  const FusionPrices nominal{PassContext{}};
  CHECK(nominal.byte_s == 1e-12);
  CHECK(nominal.launch_s == 1e-6);
}

/// A microsecond a kernel, 2 ps a byte of a pass; counts what it is asked.
class Counted final : public hw::CostModel {
 public:
  hw::Cost cost(const hw::Kernel& kernel) const override {
    ++asked;
    const auto* pass = std::get_if<hw::Streaming>(&kernel.shape);
    return {.time_s = 1e-6 + (pass != nullptr ? 2e-12 * static_cast<double>(pass->read_bytes + pass->write_bytes) : 0)};
  }
  mutable int asked = 0;
};

TEST_CASE("a device's byte and launch are read off its answers", "[unit]") {
  const Counted device;
  PassContext context;
  context.cost = &device;
  context.launch_s = 3e-6;
  const FusionPrices prices(context);
  CHECK(prices.byte_s == Approx(2e-12));
  CHECK(prices.launch_s == Approx(4e-6 + 2e-12 * 128));  // with the almost empty pass: 64 bytes read and written
  CHECK(device.asked == 2);
}

TEST_CASE("a price is asked once for equal ops, and anew for whatever differs", "[unit]") {
  const Counted device;
  PassContext context;
  context.cost = &device;
  context.typical = {{"batch", 8}};
  PricedOps prices(context);
  const auto asked = [&](const OpGraph& graph) {
    const int before = device.asked;
    const double price = prices.time_s(graph, OpId{static_cast<std::int32_t>(graph.op_count() - 1)});
    CHECK(price >= 1e-6);
    return device.asked - before;
  };
  const auto unary = [](OpKind kind, std::vector<SymExpr> shape, ElementType type, models::Attributes attributes = {}) {
    OpGraph graph;
    graph.mark_output(graph.emit(kind, {graph.input("x", std::move(shape), type)}, std::move(attributes)));
    return graph;
  };
  const auto relu = [&](models::Attributes attributes) {
    return unary(OpKind::relu, {64}, ElementType::fp16, std::move(attributes));
  };
  CHECK(asked(relu({})) == 1);
  CHECK(asked(relu({})) == 0);
  CHECK(asked(unary(OpKind::relu, {SymExpr::dim("batch") * 8}, ElementType::fp16)) == 0);  // 64 too
  CHECK(asked(unary(OpKind::exp, {64}, ElementType::fp16)) == 1);
  CHECK(asked(unary(OpKind::relu, {65}, ElementType::fp16)) == 1);
  CHECK(asked(unary(OpKind::relu, {8, 8}, ElementType::fp16)) == 1);
  CHECK(asked(unary(OpKind::relu, {64}, ElementType::fp32)) == 1);
  const std::vector<models::Attributes> different{{{"a", SymExpr(1)}},
                                                  {{"a", SymExpr(2)}},
                                                  {{"b", SymExpr(1)}},
                                                  {{"a", 0.5}},
                                                  {{"a", 0.25}},
                                                  {{"a", std::string("x")}},
                                                  {{"a", std::string("y")}},
                                                  {{"a", std::vector<SymExpr>{3, 4}}},
                                                  {{"a", std::vector<SymExpr>{3, 5}}},
                                                  {{"a", SymExpr(1)}, {"b", SymExpr(1)}}};
  for (const models::Attributes& attributes : different) {
    CHECK(asked(relu(attributes)) == 1);
    CHECK(asked(relu(attributes)) == 0);
  }
  CHECK(asked(relu({{"a", SymExpr::dim("batch") - 7}})) == 0);  // 1 too

  // Results and regions count as well.
  const auto outputs = [](ElementType type) {
    OpGraph graph;
    graph.mark_output(graph.emit(OpKind::custom, {graph.input("x", {64}, ElementType::fp16)}, {32}, type));
    return graph;
  };
  CHECK(asked(outputs(ElementType::fp16)) == 1);
  CHECK(asked(outputs(ElementType::fp32)) == 1);
  const auto fused = [](OpKind second, bool swapped) {
    OpGraph graph;
    const TensorId a = graph.emit(OpKind::relu, {graph.input("x", {64}, ElementType::fp16)});
    const TensorId b = graph.emit(second, {a});
    graph.mark_output(graph.emit(OpKind::sub, swapped ? std::vector<TensorId>{b, a} : std::vector<TensorId>{a, b}));
    return contract(graph, launch_graph(graph), {0, 0, 0});
  };
  CHECK(asked(fused(OpKind::exp, false)) == 1);
  CHECK(asked(fused(OpKind::exp, false)) == 0);
  CHECK(asked(fused(OpKind::tanh, false)) == 1);
  CHECK(asked(fused(OpKind::exp, true)) == 1);  // who makes what inside
  const auto giving = [](std::size_t output) {
    OpGraph graph;
    std::vector<TensorId> made{graph.emit(OpKind::relu, {graph.input("x", {64}, ElementType::fp16)})};
    for (int i = 0; i < 2; ++i) made.push_back(graph.emit(OpKind::relu, {made.back()}));
    graph.mark_output(made[output]);
    if (output < 2) graph.emit(OpKind::custom, {made[2]}, {64}, ElementType::fp16);
    return contract(graph, launch_graph(graph), output < 2 ? UnitGroups{0, 0, 0, -1} : UnitGroups{0, 0, 0});
  };
  const auto asked_first = [&](const OpGraph& graph) {
    const int before = device.asked;
    prices.time_s(graph, OpId{0});
    return device.asked - before;
  };
  CHECK(asked_first(giving(0)) == 1);
  CHECK(asked_first(giving(1)) == 1);  // which of the inner results leave
  CHECK(asked_first(giving(1)) == 0);
}

TEST_CASE("an op that reads a view is priced by the graph around it every time", "[unit]") {
  // The view of 64 elements is read at 32, what it was expanded from: 64 bytes read and 128 written.
  const Counted device;
  PassContext context;
  context.cost = &device;
  PricedOps prices(context);
  OpGraph graph;
  const TensorId wide = view(graph, OpKind::expand, input(graph, "x", {1, 32}), {2, 32});
  graph.mark_output(graph.emit(OpKind::relu, {wide}));
  graph.mark_output(graph.emit(OpKind::relu, {input(graph, "y", {2, 32})}));
  CHECK(prices.time_s(graph, OpId{2}) == Approx(1e-6 + 256 * 2e-12).epsilon(1e-12));
  CHECK(prices.time_s(graph, OpId{1}) == Approx(1e-6 + 192 * 2e-12).epsilon(1e-12));
  CHECK(device.asked == 2);
  CHECK(prices.time_s(graph, OpId{1}) == Approx(1e-6 + 192 * 2e-12).epsilon(1e-12));
  CHECK(device.asked == 3);
  CHECK(prices.time_s(graph, OpId{2}) == Approx(1e-6 + 256 * 2e-12).epsilon(1e-12));
  CHECK(device.asked == 3);
}

}  // namespace test_launch_graph
