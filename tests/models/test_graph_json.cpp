// Graphs as JSON: what goes out comes back the same; files in any order; every fault with its place; Graphviz.
#include <catch2/catch.hpp>

#include "models/graph/graph_dot.hpp"
#include "models/graph/graph_json.hpp"
#include "models/graph/graph_rewrite.hpp"
#include "tests/models/random_graph.hpp"

namespace test_graph_json {

using namespace orrery;
using namespace orrery::models;
using Catch::Contains;

namespace {

/// Graph -> text -> graph: both the same.
void check_round_trip(const OpGraph& graph) {
  const std::string text = json_text(graph);
  const OpGraph back = graph_from_json(sim::parse_json(text, "g.json"));
  CHECK(to_string(back) == to_string(graph));
  CHECK(json_text(back) == text);
  CHECK(verify(back).empty());
}

/// Message of the only fault.
std::string fault_of(const std::string& text) {
  try {
    static_cast<void>(graph_from_json(sim::parse_json(text, "g.json")));
  } catch (const sim::ConfigError& error) {
    CHECK(error.faults().size() == 1);
    return error.faults().front().text();
  }
  return "no fault";
}

/// A graph of x[batch, 4] -> relu -> neg, with `ops` in place of its ops.
std::string with_ops(const std::string& ops, const std::string& more = R"("outputs": ["y"])") {
  return R"({"graph": "g", "dims": {"batch": [1, 64]}, "tensors": [)"
         R"({"name": "x", "type": "fp16", "shape": ["batch", 4]}], "ops": [)" +
         ops + "], " + more + "}";
}

}  // namespace

TEST_CASE("graph json: what is written reads back the same", "[unit]") {
  OpGraph graph;
  graph.name = "all \"kinds\" of things";
  const SymExpr batch = SymExpr::dim("batch"), tokens = SymExpr::dim("tokens");
  graph.facts.in_range(Symbol("batch"), {1, 64});
  graph.facts.equal(Symbol("rows"), batch * tokens);
  graph.facts.divisible(Symbol("tokens"), 8);
  const TensorId x = graph.input("x", {batch, tokens, 64}, ElementType::bf16);
  const TensorId w = graph.add_tensor({.name = "w",
                                       .shape = {64, 256},
                                       .type = ElementType::fp8,
                                       .layout = Layout::transposed,
                                       .role = TensorRole::parameter});
  graph.constant("table", {8}, ElementType::int64);
  graph.add_tensor({.name = "moment", .shape = {64, 256}, .type = ElementType::fp32, .role = TensorRole::state});
  graph.set_scope("layer.0");
  const TensorId y = graph.emit(OpKind::matmul, {x, w});
  OpNode op;
  op.kind = OpKind::custom;
  op.name = "strange";
  op.inputs = {y};
  op.set("size", SymExpr(3));
  op.set("formula", ceil_div(tokens, 128) * 4 - 1);
  op.set("half", 0.5);
  op.set("two", 2.0);
  op.set("tiny", 1e-300);
  op.set("far", std::numeric_limits<double>::infinity());
  op.set("text", std::string("4*batch"));
  op.set("list", std::vector<SymExpr>{1, batch, tokens * 2});
  op.set("none", std::vector<SymExpr>{});
  op.phase = Phase::backward;
  op.dialect = "cutlass";
  op.target = "gpu";
  op.op_class = hw::OpClass::norm;
  std::vector<Tensor> outputs(2);
  outputs[0] = {.name = "a", .shape = {batch}, .type = ElementType::complex32, .saved = true};
  outputs[1] = {.name = "b", .shape = {}, .type = ElementType::boolean, .layout = Layout::csr};
  graph.add(op, outputs);
  graph.mark_output(*graph.find_tensor("b"));
  graph.mark_output(x);
  check_round_trip(graph);
  const OpGraph back = graph_from_json(to_json(graph));
  CHECK(back.facts.range(Symbol("batch")) == Bounds{1, 64});
  CHECK(back.facts.canonical(SymExpr::dim("rows")) == graph.facts.canonical(SymExpr::dim("rows")));
  const OpNode& again = back.op(OpId{1});
  CHECK(std::get<double>(*again.find("two")) == 2.0);
  CHECK(std::get<double>(*again.find("tiny")) == 1e-300);
  CHECK(std::get<std::string>(*again.find("text")) == "4*batch");
  CHECK(again.expr("formula", 0) == ceil_div(tokens, 128) * 4 - 1);
  CHECK(again.op_class == hw::OpClass::norm);
  CHECK(back.tensor(back.op(OpId{1}).outputs[0]).saved);
}

TEST_CASE("graph json: random graphs, fused and with control flow, come back the same", "[prop]") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    sim::RandomStream random(seed, "json");
    const OpGraph graph = test::random_graph(random, {.ops = 40});
    check_round_trip(graph);
    Grouping pairs(graph.op_count());
    for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = static_cast<std::int32_t>(i / 3);
    if (is_convex(graph, pairs)) check_round_trip(fuse_groups(graph, pairs));
  }
  OpGraph graph;
  const TensorId x = graph.input("x", {SymExpr::dim("n"), 8}, ElementType::fp32);
  OpGraph body;
  body.facts.in_range(Symbol("m"), {2, 9});
  body.mark_output(body.emit(OpKind::relu, {body.input("inner", {SymExpr::dim("n"), 8}, ElementType::fp32)}));
  OpNode loop;
  loop.kind = OpKind::loop;
  loop.name = "loop";
  loop.inputs = {x};
  loop.set("trips", SymExpr::dim("trips"));
  loop.regions.push_back(std::make_shared<const OpGraph>(body));
  graph.add(loop, {Tensor{.name = "y", .shape = {SymExpr::dim("n"), 8}, .type = ElementType::fp32}});
  graph.mark_output(*graph.find_tensor("y"));
  check_round_trip(graph);
}

TEST_CASE("graph json: ops in any order, shapes that follow, names alone", "[unit]") {
  const OpGraph graph =
      graph_from_json(sim::parse_json(with_ops(R"({"name": "second", "op": "neg", "in": ["h"], "out": ["y"]},
                  {"name": "first", "op": "relu", "in": ["x"], "out": [{"name": "h", "type": "fp16"}]})"),
                                      "g.json"));
  REQUIRE(graph.op_count() == 2);
  CHECK(graph.op(OpId{0}).name == "first");
  CHECK(shape_string(graph.tensor(*graph.find_tensor("y"))) == "fp16[batch, 4]");
  CHECK(graph.is_output(*graph.find_tensor("y")));
}

TEST_CASE("graph json: one line a fault, with its place and the nearest name", "[unit]") {
  const auto op = [](const std::string& fields) { return with_ops("{" + fields + R"(, "in": ["x"], "out": ["y"]})"); };
  CHECK(fault_of(op(R"("op": "rellu")")) == "g.json:/ops/0/op: unknown op 'rellu' (did you mean 'relu'?)");
  CHECK(fault_of(op(R"("op": "relu", "phase": "forwards")")) ==
        "g.json:/ops/0/phase: unknown phase 'forwards' (did you mean 'forward'?)");
  CHECK_THAT(fault_of(op(R"("op": "relu", "class": "nrom")")), Contains("/ops/0/class: unknown class 'nrom'"));
  CHECK_THAT(fault_of(op(R"("op": "relu", "atributes": {})")),
             Contains("/ops/0/atributes: unknown key 'atributes' (did you mean 'attributes'?)"));
  CHECK_THAT(fault_of(op(R"("name": "r")")), Contains("/ops/0/op: expected the kind of the op"));
  CHECK_THAT(fault_of(op(R"("op": "relu", "attributes": {"a": {"exp": "1"}})")),
             Contains("/ops/0/attributes/a: expected a number, a text, a list of sizes"));
  CHECK(fault_of(with_ops(R"({"op": "relu", "in": ["xx"], "out": ["y"]})")) ==
        "g.json:/ops/0/in/0: no tensor is named 'xx' (did you mean 'x'?)");
  CHECK(fault_of(with_ops(R"({"op": "relu", "in": ["x"], "out": ["y"]})", R"("outputs": ["yy"])")) ==
        "g.json:/outputs/0: no tensor is named 'yy' (did you mean 'y'?)");
  CHECK_THAT(fault_of(with_ops(R"({"op": "relu", "in": ["x"], "out": ["x"]})")),
             Contains("/ops/0/out/0: tensor 'x': the name is taken"));
  CHECK_THAT(fault_of(with_ops(R"({"name": "a", "op": "relu", "in": ["x"], "out": ["y"]},
                                  {"name": "a", "op": "relu", "in": ["x"], "out": ["z"]})")),
             Contains("/ops/1/name: two ops are named 'a'"));
  // Shapes: a formula with a slip, an unknown dimension, a shape that the rule contradicts, a rule that needs one.
  const auto shaped = [&](const std::string& shape, const std::string& kind = "relu") {
    return with_ops(R"({"name": "r", "op": ")" + kind +
                    R"(", "in": ["x"], "out": [{"name": "y", "type": "fp16", "shape": )" + shape + "}]}");
  };
  CHECK_THAT(fault_of(shaped(R"(["batsh", 4])")),
             Contains("/ops/0/out/0/shape/0: unknown dimension 'batsh' (did you mean 'batch'?)"));
  CHECK_THAT(fault_of(shaped(R"(["batch +", 4])")), Contains("/ops/0/out/0/shape/0: 'batch +': "));
  CHECK_THAT(fault_of(shaped(R"([1.5, 4])")), Contains("/ops/0/out/0/shape/0: expected a whole number or a formula"));
  CHECK_THAT(fault_of(shaped(R"(["batch", 5])")),
             Contains("g.json:/ops/0: relu 'r': expected an output of [batch, 4], got [batch, 5]"));
  CHECK_THAT(fault_of(shaped(R"(["batch", 5])", "reshape")), Contains("reshape 'r': 4*batch elements in, 5*batch out"));
  CHECK_THAT(fault_of(with_ops(R"({"name": "r", "op": "reshape", "in": ["x"], "out": ["y"]})")),
             Contains("/ops/0: reshape 'r': its output shape has to be given"));
  CHECK_THAT(fault_of(R"({"dims": {"n": [5, 9]}, "tensors": [{"name": "x", "type": "fp16", "shape": ["n", 4]}],
                          "ops": [{"name": "m", "op": "matmul", "in": ["x", "x"], "out": ["y"]}]})"),
             Contains("/ops/0: matmul 'm': [n, 4] times [n, 4]: the inner sizes 4 and n differ"));
  CHECK_THAT(fault_of(with_ops(R"({"name": "m", "op": "add", "in": ["x"], "out": ["y"]})")),
             Contains("add 'm': expected 2 inputs, got 1"));
  // The rest of the file.
  CHECK_THAT(fault_of(R"({"graph": "g", "tensors": [{"name": "x", "type": "fp17", "shape": [1]}], "outputs": ["x"]})"),
             Contains("/tensors/0/type: unknown type 'fp17'"));
  CHECK_THAT(fault_of(R"({"graph": "g", "tensors": [{"name": "x", "type": "fp16"}]})"),
             Contains("/tensors/0/shape: expected the shape of the tensor"));
  CHECK_THAT(
      fault_of(R"({"graph": "g", "tensors": [{"name": "x", "role": "activation", "type": "fp16", "shape": [1]}]})"),
      Contains("/tensors/0/role: unknown role 'activation'"));
  CHECK_THAT(fault_of(R"({"dims": {"n": [4, 2]}, "ops": []})"), Contains("/dims/n: "));
  CHECK_THAT(fault_of(R"({"dims": {"n": 4}, "outputs": []})"), Contains("expected [least, most]"));
  CHECK_THAT(fault_of(R"({"graph": "g"})"), Contains("expected a graph with at least one op or output"));
  CHECK_THAT(fault_of("[]"), Contains("expected an object, got an array"));
}

TEST_CASE("graph json: a cycle is one line that names its ops", "[unit]") {
  CHECK(fault_of(with_ops(R"({"name": "a", "op": "add", "in": ["x", "r"], "out": ["p"]},
                             {"name": "b", "op": "relu", "in": ["p"], "out": ["q"]},
                             {"name": "c", "op": "relu", "in": ["q"], "out": ["r"]},
                             {"name": "d", "op": "relu", "in": ["r"], "out": ["y"]})")) ==
        "g.json:/ops/0: the ops are in a cycle: 'a' -> 'b' -> 'c' -> 'a'");
  CHECK(fault_of(with_ops(R"({"name": "a", "op": "relu", "in": ["y"], "out": ["y"]})")) ==
        "g.json:/ops/0: the ops are in a cycle: 'a' -> 'a'");
}

TEST_CASE("graph json: all faults of a file at once, those of regions too", "[unit]") {
  try {
    static_cast<void>(
        graph_from_json(sim::parse_json(with_ops(R"({"name": "l", "op": "loop", "in": ["x"], "out": ["y"], "regions": [
                      {"tensors": [{"name": "i", "type": "fp61", "shape": ["batc"]}], "ops": []}]},
                    {"op": "rellu", "in": ["z"], "out": ["w"]})"),
                                        "g.json")));
    FAIL("no fault");
  } catch (const sim::ConfigError& error) {
    REQUIRE(error.faults().size() == 4);
    CHECK(error.faults()[0].where.pointer == "/ops/0/regions/0/tensors/0/type");
    CHECK(error.faults()[1].where.pointer == "/ops/0/regions/0/tensors/0/shape/0");
    CHECK(error.faults()[2].where.pointer == "/ops/1/op");
    CHECK(error.faults()[3].where.pointer == "/ops/1/in/0");
  }
}

TEST_CASE("graph dot: a box an op, an arrow a use, the same text every time", "[unit]") {
  OpGraph graph;
  graph.name = "net";
  const TensorId x = graph.input("x", {SymExpr::dim("n"), 8}, ElementType::fp16);
  const TensorId w = graph.parameter("w", {8, 4}, ElementType::fp16);
  const TensorId y = graph.emit(OpKind::matmul, {x, w}, {}, "up");
  graph.mark_output(graph.emit(OpKind::relu, {y}, {}, "act"));
  const std::string dot = to_dot(fuse_groups(graph, {0, 0}));
  CHECK_THAT(to_dot(graph), Contains(R"(o0 -> o1 [label = "fp16[n, 4]"];)") &&
                                Contains(R"(t1 [shape = ellipse, label = "parameter w"];)") &&
                                Contains(R"(label = "matmul\nup"];)") && Contains("o1 -> out0"));
  CHECK_THAT(dot, Contains("subgraph cluster_o0r0_ {") && Contains("o0r0_o0 -> o0r0_o1"));
  CHECK(to_dot(graph) == to_dot(graph));
  CHECK(std::count(dot.begin(), dot.end(), '{') == std::count(dot.begin(), dot.end(), '}'));
}

}  // namespace test_graph_json
