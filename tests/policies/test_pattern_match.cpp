// Matching rules: which ops a pattern takes, which it leaves, what replaces a match, and what compiling costs.
#include "policies/fusion/pattern_match.hpp"

#include "tests/policies/fusion_support.hpp"

namespace test_pattern_match {

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
using Units = std::vector<std::int32_t>;

namespace {

const SymExpr kBatch = SymExpr::dim("batch");

FusionRule rule_of(const std::string& text) {
  sim::Faults faults;
  const FusionRule rule = read_rule(sim::parse_json(text, "rule.json"), faults);
  faults.throw_if_any();
  return rule;
}

/// A rule named r of `nodes` and `more`, both as JSON without the brackets.
FusionRule rule(const std::string& nodes, const std::string& more) {
  return rule_of(R"({"name": "r", "nodes": [)" + nodes + "], " + more + "}");
}
/// A node of kind `a` whose result a node of kind `b` reads; `first` and `edge` go into the first node and the edge.
FusionRule pair(const std::string& a, const std::string& b, const std::string& first = "", const std::string& edge = "",
                const std::string& more = "") {
  return rule(R"({"name": "a", "op": ")" + a + "\"" + first + R"(}, {"name": "b", "op": ")" + b + R"("})",
              R"("edges": [{"from": "a", "to": "b")" + edge + R"(}], "escapes": ["b"])" + more);
}

/// Units of the matches, each in the order of its nodes' names.
std::vector<Units> matches(const OpGraph& graph, const std::vector<FusionRule>& rules) {
  std::vector<Units> all;
  for (const RuleMatch& match : find_matches(graph, launch_graph(graph), rules)) {
    std::vector<std::pair<std::string, std::int32_t>> named;
    for (std::size_t i = 0; i < match.units.size(); ++i) named.emplace_back(match.nodes.at(i), match.units[i]);
    std::sort(named.begin(), named.end());
    all.emplace_back();
    for (const auto& [name, unit] : named) all.back().push_back(unit);
  }
  return all;
}
std::vector<Units> matches(const OpGraph& graph, const FusionRule& rule) {
  return matches(graph, std::vector<FusionRule>{rule});
}

TensorId input(OpGraph& graph, const char* name, std::vector<SymExpr> shape = {kBatch, 64}) {
  return graph.input(name, std::move(shape), ElementType::fp16);
}

/// relu and then exp, marked as output.
OpGraph relu_exp() {
  OpGraph graph;
  graph.mark_output(graph.emit(OpKind::exp, {graph.emit(OpKind::relu, {input(graph, "x")})}));
  return graph;
}

PassContext sized(std::int64_t batch) {
  PassContext context;
  context.typical = {{"batch", batch}};
  return context;
}

}  // namespace

TEST_CASE("a pattern's edge says which input and which output it is", "[unit]") {
  OpGraph graph;
  const TensorId x = input(graph, "x");
  const TensorId a = graph.emit(OpKind::relu, {x});    // 0
  graph.mark_output(graph.emit(OpKind::sub, {x, a}));  // 1 reads it second
  CHECK(matches(graph, pair("relu", "sub")) == std::vector<Units>{{0, 1}});
  CHECK(matches(graph, pair("relu", "sub", "", R"(, "slot": 1)")) == std::vector<Units>{{0, 1}});
  CHECK(matches(graph, pair("relu", "sub", "", R"(, "slot": 0)")).empty());
  CHECK(matches(graph, pair("relu", "sub", "", R"(, "output": 1)")).empty());

  OpGraph two;
  OpNode maker;
  maker.inputs = {input(two, "x")};
  const OpId made = two.add(std::move(maker), {{.shape = {kBatch, 64}}, {.shape = {kBatch, 64}}});
  two.mark_output(two.emit(OpKind::relu, {two.op(made).outputs[1]}));
  CHECK(matches(two, pair("custom", "relu", "", R"(, "output": 1)")) == std::vector<Units>{{0, 1}});
  CHECK(matches(two, pair("custom", "relu")).empty());  // output 0 is read by nobody
}

TEST_CASE("an attribute that an op lacks is zero, any other must be equal", "[unit]") {
  OpGraph graph;
  const TensorId x = input(graph, "x");
  const std::vector<models::Attributes> given{{}, {{"axis", SymExpr(0)}}, {{"axis", SymExpr(2)}}};
  for (const models::Attributes& attributes : given)
    graph.mark_output(graph.emit(OpKind::exp, {graph.emit(OpKind::relu, {x}, attributes)}));
  CHECK(matches(graph, pair("relu", "exp", R"(, "attributes": {"axis": 0})")) == std::vector<Units>{{0, 1}, {2, 3}});
  CHECK(matches(graph, pair("relu", "exp", R"(, "attributes": {"axis": 2})")) == std::vector<Units>{{4, 5}});
  CHECK(matches(graph, pair("relu", "exp", R"(, "attributes": {"axis": "two"})")).empty());
}

TEST_CASE("a node's phase, types and last sizes are those of the op and its first result", "[unit]") {
  OpGraph graph = relu_exp();
  for (const OpId id : graph.ops()) graph.annotate(id).phase = models::Phase::backward;
  const auto found = [&](const std::string& node) { return matches(graph, pair("relu", "exp", node)).size(); };
  CHECK(found(R"(, "phase": "backward")") == 1);
  CHECK(found(R"(, "phase": "forward")") == 0);
  CHECK(found(R"(, "types": ["fp32", "fp16"])") == 1);
  CHECK(found(R"(, "shape": ["64"])") == 1);  // the last
  CHECK(found(R"(, "shape": ["batch", "*"])") == 1);
  CHECK(found(R"(, "shape": ["64", "*"])") == 0);       // the last but one
  CHECK(found(R"(, "shape": ["*", "*", "64"])") == 0);  // it has no third
}

TEST_CASE("a node's parameters may be seen through views, and must be there", "[unit]") {
  OpGraph graph;
  const TensorId x = input(graph, "x");
  const TensorId w = graph.parameter("w", {32, 64}, ElementType::fp16);
  const TensorId turned = graph.emit(OpKind::transpose, {w}, {64, 32}, ElementType::fp16);
  graph.mark_output(graph.emit(OpKind::relu, {graph.emit(OpKind::matmul, {x, turned})}));
  const auto found = [&](const std::string& slots) {
    return matches(graph, pair("matmul", "relu", R"(, "parameters": )" + slots)).size();
  };
  CHECK(found("[1]") == 1);
  CHECK(found("[0]") == 0);
  CHECK(found("[1, 0]") == 0);
  CHECK(found("[1, 2]") == 0);  // a third input is not there
}

TEST_CASE("an op without results matches a node that asks nothing of them", "[unit]") {
  OpGraph graph;
  OpNode sink;
  sink.inputs = {graph.emit(OpKind::relu, {input(graph, "x")})};
  graph.add(std::move(sink), {});
  const auto found = [&](const std::string& node) {
    return matches(graph, rule(R"({"name": "a", "op": "relu"}, {"name": "b", "op": "custom")" + node + "}",
                               R"("edges": [{"from": "a", "to": "b"}], "escapes": ["b"])"))
        .size();
  };
  CHECK(found("") == 1);
  CHECK(found(R"(, "types": ["fp16"])") == 0);
  CHECK(found(R"(, "shape": ["*"])") == 0);
}

TEST_CASE("what does not escape is read by the match alone, and is no output, as a view neither", "[unit]") {
  const FusionRule rule = pair("relu", "exp");
  OpGraph graph = relu_exp();
  CHECK(matches(graph, rule) == std::vector<Units>{{0, 1}});
  OpGraph read = graph;
  const TensorId a = graph.op(OpId{0}).outputs.front();
  read.mark_output(read.emit(OpKind::tanh, {a}));
  CHECK(matches(read, rule).empty());
  OpGraph given = graph;
  given.mark_output(a);
  CHECK(matches(given, rule).empty());
  OpGraph view = graph;
  const TensorId flat = view.emit(OpKind::reshape, {a}, {kBatch * 64}, ElementType::fp16);
  CHECK(matches(view, rule).size() == 1);  // a view that nobody reads
  const TensorId again = view.emit(OpKind::reshape, {flat}, {kBatch * 32, 2}, ElementType::fp16);
  view.mark_output(again);  // a view of a view
  CHECK(matches(view, rule).empty());
  // Where it escapes all of this is allowed.
  const FusionRule open = rule_of(R"({"name": "r", "nodes": [{"name": "a", "op": "relu"}, {"name": "b", "op": "exp"}],
    "edges": [{"from": "a", "to": "b"}], "escapes": ["a", "b"]})");
  for (const OpGraph& each : {read, given, view}) CHECK(matches(each, open) == std::vector<Units>{{0, 1}});
}

TEST_CASE("a match is of one phase, target and dialect", "[unit]") {
  const FusionRule rule = pair("relu", "exp");
  OpGraph phase = relu_exp(), target = relu_exp(), dialect = relu_exp();
  phase.annotate(OpId{1}).phase = models::Phase::backward;
  target.annotate(OpId{1}).target = "npu";
  dialect.annotate(OpId{1}).dialect = "tvm";
  for (const OpGraph& graph : {phase, target, dialect}) CHECK(matches(graph, rule).empty());
}

TEST_CASE("an op belongs to the first match that takes it: rules, then patterns, then the graph's order", "[unit]") {
  // relu exp relu exp tanh: 0 1 2 3 4
  OpGraph graph;
  TensorId x = input(graph, "x");
  for (const OpKind kind : {OpKind::relu, OpKind::exp, OpKind::relu, OpKind::exp, OpKind::tanh})
    x = graph.emit(kind, {x});
  graph.mark_output(x);
  CHECK(matches(graph, pair("relu", "exp")) == std::vector<Units>{{0, 1}, {2, 3}});
  CHECK(matches(graph, pair("exp", "relu")) == std::vector<Units>{{1, 2}});
  CHECK(matches(graph, {pair("exp", "relu"), pair("relu", "exp")}) == std::vector<Units>{{1, 2}});
  CHECK(matches(graph, {pair("exp", "tanh"), pair("relu", "exp")}) == std::vector<Units>{{3, 4}, {0, 1}});
}

TEST_CASE("the larger pattern of a rule takes its ops before the smaller", "[unit]") {
  // relu exp neg twice, once without exp: 0 1 2, 3 4
  OpGraph graph;
  const TensorId x = input(graph, "x");
  graph.mark_output(graph.emit(OpKind::neg, {graph.emit(OpKind::exp, {graph.emit(OpKind::relu, {x})})}));
  graph.mark_output(graph.emit(OpKind::neg, {graph.emit(OpKind::relu, {x})}));
  const FusionRule optional =
      rule(R"({"name": "a", "op": "relu"}, {"name": "b", "op": "exp", "optional": true}, {"name": "c", "op": "neg"})",
           R"("edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}], "escapes": ["c"])");
  CHECK(matches(graph, optional) == std::vector<Units>{{0, 1, 2}, {3, 4}});
  const std::vector<RuleMatch> found = find_matches(graph, launch_graph(graph), {pair("tanh", "relu"), optional});
  REQUIRE(found.size() == 2);
  CHECK(found[0].rule == 1);
  CHECK(found[0].pattern == 0);
  CHECK(found[1].pattern == 1);
}

TEST_CASE("a match that a path leaves and comes back to is none, alone or beside others", "[unit]") {
  OpGraph graph;  // relu, opaque of it, sub of both
  const TensorId a = graph.emit(OpKind::relu, {input(graph, "x")});
  const TensorId far = graph.emit(OpKind::custom, {a}, {kBatch, 64}, ElementType::fp16);
  graph.mark_output(graph.emit(OpKind::sub, {a, far}));
  const FusionRule open = rule(R"({"name": "a", "op": "relu"}, {"name": "b", "op": "sub"})",
                               R"("edges": [{"from": "a", "to": "b"}], "escapes": ["a", "b"])");
  CHECK(matches(graph, open).empty());

  // relu (0) is read by mul (2), exp (1) by sub (3); either pair alone, (0, 3) or (1, 2), would do. Both would wait for
  // each other.
  OpGraph crossed;
  const TensorId x = input(crossed, "x");
  const TensorId one = crossed.emit(OpKind::relu, {x}), two = crossed.emit(OpKind::exp, {x});
  crossed.mark_output(crossed.emit(OpKind::mul, {x, one}));
  crossed.mark_output(crossed.emit(OpKind::sub, {x, two}));
  const auto share = [](const std::string& p, const std::string& q) {
    return rule(R"({"name": "a", "op": ")" + p + R"("}, {"name": "b", "op": ")" + q + R"("})",
                R"("shared": [{"nodes": ["a", "b"]}], "escapes": ["a", "b"])");
  };
  CHECK(matches(crossed, {share("relu", "sub"), share("exp", "mul")}) == std::vector<Units>{{0, 3}});
  CHECK(matches(crossed, {share("exp", "mul"), share("relu", "sub")}) == std::vector<Units>{{1, 2}});
}

TEST_CASE("nodes that share an input read one tensor in that slot", "[unit]") {
  OpGraph graph;
  const TensorId x = input(graph, "x"), y = input(graph, "y");
  graph.mark_output(graph.emit(OpKind::relu, {y}));    // 0
  graph.mark_output(graph.emit(OpKind::exp, {x}));     // 1
  graph.mark_output(graph.emit(OpKind::relu, {x}));    // 2
  graph.mark_output(graph.emit(OpKind::sub, {y, x}));  // 3
  const auto shared = [](const std::string& nodes, const std::string& slot) {
    return rule(nodes, R"("shared": [{"nodes": ["a", "b"], "slot": )" + slot + R"(}], "escapes": ["a", "b"])");
  };
  const std::string relu = R"({"name": "a", "op": "relu"})", exp = R"({"name": "b", "op": "exp"})",
                    sub = R"({"name": "b", "op": "sub"})";
  CHECK(matches(graph, shared(relu + "," + exp, "0")) == std::vector<Units>{{2, 1}});
  CHECK(matches(graph, shared(exp + R"(, {"name": "a", "op": "relu"})", "0")) == std::vector<Units>{{2, 1}});
  CHECK(matches(graph, shared(relu + "," + sub, "0")) == std::vector<Units>{{0, 3}});
  CHECK(matches(graph, shared(relu + "," + sub, "1")).empty());  // a relu has no second input
  CHECK(matches(graph, shared(R"({"name": "a", "op": "relu"}, {"name": "b", "op": "relu"})", "0")).empty());
}

TEST_CASE("a pattern with a diamond needs all of its edges", "[unit]") {
  const FusionRule diamond = rule(
      R"({"name": "a", "op": "relu"}, {"name": "b", "op": "exp"}, {"name": "c", "op": "tanh"},
         {"name": "d", "op": "sub"})",
      R"("edges": [{"from": "a", "to": "b"}, {"from": "a", "to": "c"}, {"from": "b", "to": "d", "slot": 0},
                   {"from": "c", "to": "d", "slot": 1}], "escapes": ["d"])");
  const auto made = [](bool one, bool turned) {
    OpGraph graph;
    const TensorId x = input(graph, "x");
    const TensorId a = graph.emit(OpKind::relu, {x}), other = one ? a : graph.emit(OpKind::relu, {x});
    const TensorId b = graph.emit(OpKind::exp, {a}), c = graph.emit(OpKind::tanh, {other});
    graph.mark_output(graph.emit(OpKind::sub, turned ? std::vector<TensorId>{c, b} : std::vector<TensorId>{b, c}));
    return graph;
  };
  CHECK(matches(made(true, false), diamond) == std::vector<Units>{{0, 1, 2, 3}});
  CHECK(matches(made(false, false), diamond).empty());  // exp and tanh read two different ops
  CHECK(matches(made(true, true), diamond).empty());    // the difference the other way round
}

TEST_CASE("of several readers the one that fits the pattern is found", "[unit]") {
  // relu is read by exp twice; only the second exp goes on to neg.
  OpGraph graph;
  const TensorId a = graph.emit(OpKind::relu, {input(graph, "x")});
  graph.mark_output(graph.emit(OpKind::exp, {a}));
  graph.mark_output(graph.emit(OpKind::neg, {graph.emit(OpKind::exp, {a})}));
  const FusionRule row =
      rule(R"({"name": "a", "op": "relu"}, {"name": "b", "op": "exp"}, {"name": "c", "op": "neg"})",
           R"("edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}], "escapes": ["a", "c"])");
  CHECK(matches(graph, row) == std::vector<Units>{{0, 2, 3}});
  // Of several producers too: the difference reads exp of x and exp of relu.
  OpGraph back;
  const TensorId x = input(back, "x");
  const TensorId first = back.emit(OpKind::exp, {x}), second = back.emit(OpKind::exp, {back.emit(OpKind::relu, {x})});
  back.mark_output(back.emit(OpKind::sub, {first, second}));
  CHECK(matches(back, rule(R"({"name": "a", "op": "relu"}, {"name": "b", "op": "exp"}, {"name": "c", "op": "sub"})",
                           R"("edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}], "escapes": ["c"])")) ==
        std::vector<Units>{{1, 2, 3}});
}

TEST_CASE("the op that replaces a match has what the rule says and the place of the match", "[unit]") {
  OpGraph graph;
  const TensorId x = input(graph, "x"), y = input(graph, "y");
  graph.set_scope("layer.1");
  graph.set_phase(models::Phase::backward);
  graph.mark_output(graph.emit(OpKind::sub, {graph.emit(OpKind::relu, {x}), y}, {}, "result"));
  for (const OpId id : graph.ops()) graph.annotate(id).target = "npu";
  PassReport report;
  const FusionRule replace = pair("relu", "sub", "", "",
                                  R"(, "result": {"op": "maximum", "name": "both", "dialect": "lib",
                                       "inputs": [{"node": "b", "slot": 1}, {"node": "a", "slot": 0}],
                                       "attributes": {"width": 4, "alpha": 0.5}})");
  const OpGraph after = apply_rules(graph, {replace}, sized(2), true, report);
  REQUIRE(after.op_count() == 1);
  const OpNode& op = after.op(OpId{0});
  CHECK(op.kind == OpKind::maximum);
  CHECK(op.name.starts_with("both"));
  CHECK(op.dialect == "lib");
  CHECK(op.scope == "layer.1");
  CHECK(op.phase == models::Phase::backward);
  CHECK(op.target == "npu");
  CHECK(op.attributes == models::Attributes{{"alpha", 0.5}, {"width", SymExpr(4)}});  // and no mark
  REQUIRE(op.inputs.size() == 2);
  CHECK(after.tensor(op.inputs[0]).name == "y");
  CHECK(after.tensor(op.inputs[1]).name == "x");
  CHECK(after.tensor(after.outputs()[0]).name == graph.tensor(graph.outputs()[0]).name);
  CHECK(models::verify(after).empty());
}

TEST_CASE("attributes of a fused result stand on the fused op, beside ops that no rule took", "[unit]") {
  OpGraph graph = relu_exp();
  graph.mark_output(graph.emit(OpKind::tanh, {graph.outputs()[0]}));
  PassReport report;
  const FusionRule fuse = pair("relu", "exp", "", "", R"(, "result": {"dialect": "lib", "attributes": {"width": 4}})");
  const OpGraph after = apply_rules(graph, {fuse}, sized(2), true, report);
  REQUIRE(after.op_count() == 2);
  CHECK(after.op(OpId{0}).integer("width", 0) == 4);
  CHECK(after.op(OpId{0}).name == "r_0");
  CHECK(after.op(OpId{0}).dialect == "lib");
  CHECK(after.op(OpId{1}).kind == OpKind::tanh);
  CHECK(after.op(OpId{1}).dialect.empty());
  CHECK(figure(report, "groups") == 1);
  CHECK(figure(report, "rejected") == 0);
  CHECK(figure(report, "matches.r") == 1);
}

TEST_CASE("inputs that a match cannot give are faults of the rule that say which", "[unit]") {
  const OpGraph graph = relu_exp();
  const auto run = [&](const std::string& inputs) {
    PassReport report;
    const FusionRule row = rule(
        R"({"name": "a", "op": "relu"}, {"name": "o", "op": "tanh", "optional": true}, {"name": "b", "op": "exp"})",
        R"("edges": [{"from": "a", "to": "o"}, {"from": "o", "to": "b"}], "escapes": ["b"],
           "result": {"op": "custom", "inputs": [)" +
            inputs + "]}");
    return apply_rules(graph, {row}, sized(2), true, report);
  };
  const std::string x = R"({"node": "a", "slot": 0})";
  CHECK_THROWS_WITH(run(R"({"node": "o", "slot": 0})"), "a rule's input is of node 'o', which the match lacks");
  CHECK(run(x + R"(, {"node": "o", "slot": 0, "optional": true})").op(OpId{0}).inputs.size() == 1);
  CHECK_THROWS_WITH(run(R"({"node": "a", "slot": 1})"),
                    Catch::StartsWith("a rule's input is number 1 of '") && Catch::EndsWith("', which has 1"));
  CHECK_THROWS_WITH(run(R"({"node": "b", "slot": 0})"), "rule 'r': an input is made inside the match");
}

TEST_CASE("only a view that swaps the last two axes is undone for an input before a transpose", "[unit]") {
  const auto read = [](std::vector<SymExpr> shape, std::vector<SymExpr> turned, OpKind view, models::Attributes more,
                       const std::string& before) {
    OpGraph graph;
    const TensorId x = input(graph, "x", std::move(shape));
    const TensorId seen = graph.emit(view, {x}, std::move(turned), ElementType::fp16, std::move(more), "seen");
    graph.mark_output(graph.emit(OpKind::exp, {graph.emit(OpKind::relu, {seen})}));
    PassReport report;
    const FusionRule replace = pair("relu", "exp", "", "", R"(, "result": {"op": "custom", "inputs": [
        {"node": "a", "slot": 0, "before": ")" + before + R"("}]})");
    const OpGraph after = apply_rules(graph, {replace}, sized(2), true, report);
    const OpNode& op = after.op(OpId{static_cast<std::int32_t>(after.op_count() - 1)});
    return after.tensor(op.inputs.at(0)).name == "x";
  };
  const auto perm = [](std::vector<SymExpr> order) { return models::Attributes{{"perm", std::move(order)}}; };
  const std::vector<SymExpr> cube{2, 3, 4};
  CHECK(read(cube, {2, 4, 3}, OpKind::transpose, perm({0, 2, 1}), "transpose"));
  CHECK_FALSE(read(cube, {2, 4, 3}, OpKind::transpose, perm({0, 2, 1}), ""));
  CHECK_FALSE(read(cube, {3, 2, 4}, OpKind::transpose, perm({1, 0, 2}), "transpose"));
  CHECK_FALSE(read(cube, {6, 4}, OpKind::reshape, {}, "transpose"));
  CHECK(read({3, 4}, {4, 3}, OpKind::transpose, {}, "transpose"));  // without an order: the last two
  CHECK(read({3, 4}, {4, 3}, OpKind::transpose, perm({1, 0}), "transpose"));
}

TEST_CASE("a kernel is compiled once for each rule, pattern and sizes of its results", "[unit]") {
  OpGraph graph;
  for (const std::int64_t width : {64, 64, 32}) {
    const TensorId x = input(graph, ("x" + std::to_string(graph.op_count())).c_str(), {kBatch, width});
    graph.mark_output(graph.emit(OpKind::exp, {graph.emit(OpKind::relu, {x})}));
    graph.mark_output(graph.emit(OpKind::neg, {graph.emit(OpKind::tanh, {x})}));
  }
  const auto compile_s = [&](std::vector<FusionRule> rules) {
    PassReport report;
    apply_rules(graph, rules, sized(2), true, report);
    return figure(report, "compile_s");
  };
  FusionRule first = pair("relu", "exp", "", "", R"(, "compile_time": "2 s")");
  FusionRule second = pair("tanh", "neg", "", "", R"(, "compile_time": "0.5 s")");
  CHECK(compile_s({first}) == 4);              // for widths of 64 and 32
  CHECK(compile_s({first, second}) == 4 + 1);  // another's kernels are others
  second.compile_s = 0;
  CHECK(compile_s({first, second}) == 4);  // comes compiled
  // Of one rule with two kinds each is a kernel of its own.
  const FusionRule either = rule(R"({"name": "a", "op": ["relu", "tanh"]}, {"name": "b", "op": ["exp", "neg"]})",
                                 R"("edges": [{"from": "a", "to": "b"}], "escapes": ["b"], "compile_time": "1 s")");
  CHECK(compile_s({either}) == 4);
}

/// A kernel of its own takes a second; what a compiler made takes `compiled_s`.
class CompiledFor final : public hw::CostModel {
 public:
  explicit CompiledFor(double compiled_s) : compiled_s_(compiled_s) {}
  hw::Cost cost(const hw::Kernel& kernel) const override {
    const auto* pass = std::get_if<hw::Streaming>(&kernel.shape);
    return {.time_s = pass != nullptr && pass->pass == hw::Pass::compiled ? compiled_s_ : 1};
  }

 private:
  double compiled_s_;
};

TEST_CASE("a group that takes longer than its ops and their launches is taken apart", "[unit]") {
  // relu and exp: two seconds apart, and a second for each launch.
  const OpGraph graph = relu_exp();
  const auto rejected = [&](double compiled_s, double launch_s, bool keep) {
    const CompiledFor cost(compiled_s);
    PassContext context = sized(2);
    context.cost = &cost;
    context.launch_s = launch_s;
    PassReport report;
    const OpGraph after = apply_rules(graph, {pair("relu", "exp")}, context, keep, report);
    CHECK(after.op_count() == (figure(report, "rejected") > 0 ? 2 : 1));
    CHECK(figure(report, "groups") == 1 - figure(report, "rejected"));
    CHECK(figure(report, "launches_before") == 2);
    CHECK(figure(report, "launches_after") == static_cast<double>(after.op_count()));
    return figure(report, "rejected");
  };
  CHECK(rejected(1.5, 0, false) == 0);
  CHECK(rejected(2, 0, false) == 0);  // as long as apart
  CHECK(rejected(2.5, 0, false) == 1);
  CHECK(rejected(2.5, 1, false) == 0);  // 3.5 against 2 + 2
  CHECK(rejected(3.5, 1, false) == 1);  // 4.5
  CHECK(rejected(2.5, 0, true) == 0);   // losers are kept
}

TEST_CASE("of several groups only the losers are taken apart", "[unit]") {
  // relu and exp become a compiled pass; a product and relu a product with an epilogue, which takes a second.
  OpGraph graph = relu_exp();
  const TensorId y =
      graph.emit(OpKind::matmul, {graph.outputs()[0], graph.parameter("w", {64, 64}, ElementType::fp16)});
  graph.mark_output(graph.emit(OpKind::gelu, {y}));
  const CompiledFor cost(2.5);
  PassContext context = sized(2);
  context.cost = &cost;
  PassReport report;
  const OpGraph after = apply_rules(graph, {pair("relu", "exp"), pair("matmul", "gelu")}, context, false, report);
  CHECK(figure(report, "rejected") == 1);
  CHECK(figure(report, "groups") == 1);
  CHECK(after.op_count() == 3);
  check_fusion(graph, after, {{{"batch", 2}}});
}

TEST_CASE("Adopter charges compiling a rule's own time before the common one, of its dialects only", "[unit]") {
  const OpGraph graph = relu_exp();
  const auto compile_s = [&](const std::string& rule, const std::string& more) {
    PassReport report;
    apply("adopter", graph, sized(2),
          R"({"rules": [], "compile_time": "7 s", "inline": [{"name": "r", "nodes": [{"name": "a", "op": "relu"},
              {"name": "b", "op": "exp"}], "edges": [{"from": "a", "to": "b"}], "escapes": ["b"])" +
              rule + "}]" + more + "}",
          &report);
    return figure(report, "compile_s");
  };
  CHECK(compile_s(R"(, "result": {"dialect": "triton"})", "") == 7);
  CHECK(compile_s(R"(, "result": {"dialect": "triton"}, "compile_time": "2 s")", "") == 2);
  CHECK(compile_s(R"(, "result": {"dialect": "cuda"})", "") == 0);
  CHECK(compile_s(R"(, "result": {"dialect": "cuda"})", R"(, "compiled_dialects": ["triton", "cuda"])") == 7);
  CHECK(compile_s(R"(, "result": {"dialect": "cuda"}, "compile_time": "2 s")", "") == 2);
}

}  // namespace test_pattern_match
