#include "policies/fusion/fusion_rule.hpp"
#include "tests/policies/fusion_support.hpp"

namespace test_fusion_pattern {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;
using models::ElementType;
using models::OpGraph;
using models::OpKind;
using models::SymExpr;
using models::TensorId;

namespace {

const SymExpr kBatch = SymExpr::dim("batch");

PassContext sized(std::int64_t batch) {
  PassContext context;
  context.typical = {{"batch", batch}};
  return context;
}

int count_kind(const OpGraph& graph, OpKind kind) {
  int count = 0;
  for (const models::OpId id : graph.ops()) count += graph.op(id).kind == kind ? 1 : 0;
  return count;
}

/// q k^T, scale, mask, softmax, dropout, times v; operands [batch, 4, 128, 64].
OpGraph eager_attention(bool mask) {
  OpGraph graph;
  std::vector<TensorId> t;
  for (const char* name : {"q", "k", "v"}) t.push_back(graph.input(name, {kBatch, 4, 128, 64}, ElementType::fp16));
  TensorId s = graph.emit(OpKind::matmul, {t[0], t[1]}, {{"trans_b", SymExpr(1)}});
  s = graph.emit(OpKind::scale, {s});
  if (mask) s = graph.emit(OpKind::add, {s, graph.input("mask", {kBatch, 1, 1, 128}, ElementType::fp16)});
  s = graph.emit(OpKind::softmax, {s});
  s = graph.emit(OpKind::dropout, {s});
  graph.mark_output(graph.emit(OpKind::matmul, {s, t[2]}, {}, "context"));
  return graph;
}

/// x -> linear -> bias -> gelu, `layers` times.
OpGraph feed_forward(int layers) {
  OpGraph graph;
  TensorId x = graph.input("x", {kBatch, 64}, ElementType::fp16);
  for (int i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i);
    x = graph.emit(OpKind::matmul, {x, graph.parameter("w" + n, {64, 64}, ElementType::fp16)});
    x = graph.emit(OpKind::add, {x, graph.parameter("b" + n, {64}, ElementType::fp16)});
    x = graph.emit(OpKind::gelu, {x});
  }
  graph.mark_output(x);
  return graph;
}

std::vector<std::string> faults_of(const std::string& params) {
  std::vector<std::string> lines;
  try {
    make_pass("pattern_fusion", params);
  } catch (const sim::ConfigError& error) {
    for (const sim::Fault& fault : error.faults()) lines.push_back(fault.text());
  }
  return lines;
}

}  // namespace

TEST_CASE("attention's products and passes become one op without the scores", "[unit]") {
  for (const bool mask : {false, true}) {
    const OpGraph graph = eager_attention(mask);
    PassReport report;
    const OpGraph fused =
        apply("pattern_fusion", graph, sized(2), R"({"rules": ["attention"], "always": true})", &report);
    REQUIRE(fused.op_count() == 1);
    const models::OpNode& op = fused.op(models::OpId{0});
    CHECK(op.kind == OpKind::attention);
    CHECK(op.dialect == "xformers");
    CHECK(op.inputs.size() == (mask ? 4 : 3));
    CHECK(fused.tensor(op.inputs[0]).name == "q");
    CHECK(fused.tensor(op.inputs[2]).name == "v");
    CHECK(models::verify(fused).empty());
    CHECK(figure(report, "matches.attention") == 1);
    // q, k, v and the result: 4 x 2 x 4 x 128 x 64 x 2 B, and the mask.
    CHECK(moved(fused, {{"batch", 2}}) == 4 * 2 * 4 * 128 * 64 * 2 + (mask ? 2 * 128 * 2 : 0));
    // Products: 2 x 2 x (2 x 4 x 128 x 128 x 64); the softmax is not counted.
    CHECK(flops(fused, {{"batch", 2}}) == std::int64_t{4} * 2 * 4 * 128 * 128 * 64);
  }
}

TEST_CASE("a transposed view of the keys is undone, one of the heads is not", "[unit]") {
  OpGraph graph;
  const TensorId q = graph.input("q", {kBatch, 4, 128, 64}, ElementType::fp16);
  const TensorId k = graph.input("k", {kBatch, 4, 128, 64}, ElementType::fp16);
  const TensorId heads = graph.input("v", {kBatch, 128, 4, 64}, ElementType::fp16);
  const std::vector<SymExpr> swap{0, 1, 3, 2}, permute{0, 2, 1, 3};
  const TensorId turned = graph.emit(OpKind::transpose, {k}, {kBatch, 4, 64, 128}, ElementType::fp16, {{"perm", swap}});
  const TensorId v =
      graph.emit(OpKind::transpose, {heads}, {kBatch, 4, 128, 64}, ElementType::fp16, {{"perm", permute}});
  TensorId s = graph.emit(OpKind::softmax, {graph.emit(OpKind::matmul, {q, turned})});
  graph.mark_output(graph.emit(OpKind::matmul, {s, v}));
  const OpGraph fused = apply("pattern_fusion", graph, sized(2), R"({"rules": ["attention"], "always": true})");
  CHECK(count_kind(fused, OpKind::attention) == 1);
  for (const models::OpId id : fused.ops()) {
    if (fused.op(id).kind != OpKind::attention) continue;
    CHECK(fused.tensor(fused.op(id).inputs[1]).name == "k");
    CHECK(fused.tensor(fused.op(id).inputs[2]).shape == fused.tensor(fused.op(id).inputs[0]).shape);
  }
}

TEST_CASE("nothing matches where a value is read from outside", "[unit]") {
  OpGraph graph = eager_attention(true);
  graph.mark_output(*graph.find_tensor("softmax_3"));
  CHECK(to_string(apply("pattern_fusion", graph, sized(2), R"({"rules": ["attention"]})")) == to_string(graph));
}

TEST_CASE("priority decides who gets an op, and the rest goes to the next rule", "[unit]") {
  const OpGraph graph = feed_forward(3);
  PassReport report;
  const OpGraph fused =
      apply("pattern_fusion", graph, sized(4), R"({"rules": ["bias_gelu", "bias_activation"]})", &report);
  // Both have priority 30; bias_activation sorts first and takes product, bias and GELU of every layer.
  CHECK(figure(report, "matches.bias_activation") == 3);
  CHECK(figure(report, "matches.bias_gelu") == 0);
  CHECK(fused.op_count() == 3);
  for (const models::OpId id : fused.ops()) CHECK(fused.op(id).dialect == "cublaslt");
  check_fusion(graph, fused, {{{"batch", 1}}, {{"batch", 1024}}});
  CHECK(fused.op(models::OpId{0}).name.starts_with("linear_activation"));

  PassReport other;
  apply("pattern_fusion", graph, sized(4), R"({"rules": ["bias_activation"], "inline": [
    {"name": "first", "priority": 90, "nodes": [{"name": "b", "op": "add"}, {"name": "g", "op": "gelu"}],
     "edges": [{"from": "b", "to": "g"}], "escapes": ["g"]}]})",
        &other);
  CHECK(figure(other, "matches.first") == 3);
  CHECK(figure(other, "matches.bias_activation") == 0);
}

TEST_CASE("three projections of one activation are one product", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 64}, ElementType::fp16);
  for (const char* name : {"q", "k", "v"})
    graph.mark_output(graph.emit(OpKind::matmul, {x, graph.parameter(name, {64, 64}, ElementType::fp16)}));
  const OpGraph fused = apply("pattern_fusion", graph, sized(4), R"({"rules": ["fused_qkv"]})");
  CHECK(count_launches(fused) == 1);
  // x is read once in place of three times: 2 x 4 x 64 x 2 B less.
  CHECK(moved(graph, {{"batch", 4}}) - moved(fused, {{"batch", 4}}) == 1024);
  check_fusion(graph, fused, {{{"batch", 4}}});
}

TEST_CASE("constraints on attributes, types, shapes and parameters decide what matches", "[unit]") {
  const OpGraph graph = feed_forward(1);
  const auto matches = [&](const std::string& node) {
    PassReport report;
    apply("pattern_fusion", graph, sized(4),
          R"({"rules": [], "inline": [{"name": "r", "nodes": [{"name": "a", "op": "add", )" + node +
              R"(}, {"name": "g", "op": "gelu"}], "edges": [{"from": "a", "to": "g"}], "escapes": ["g"]}]})",
          &report);
    return figure(report, "matches.r");
  };
  CHECK(matches(R"("types": ["fp16"])") == 1);
  CHECK(matches(R"("types": ["fp32"])") == 0);
  CHECK(matches(R"("shape": ["batch", "64"])") == 1);
  CHECK(matches(R"("shape": ["*", "32"])") == 0);
  CHECK(matches(R"("shape": ["*", "*", "*"])") == 0);
  CHECK(matches(R"("parameters": [1])") == 1);
  CHECK(matches(R"("parameters": [0])") == 0);
  CHECK(matches(R"("attributes": {"axis": 3})") == 0);
  CHECK(matches(R"("phase": "backward")") == 0);
}

TEST_CASE("faults of rules have one line each, with their place", "[unit]") {
  const auto inline_faults = [](const std::string& rule) { return faults_of(R"({"inline": [)" + rule + "]}"); };
  CHECK(faults_of(R"({"rules": ["bias_actvation"]})") ==
        std::vector<std::string>{"/rules: unknown fusion rule 'bias_actvation' (did you mean 'bias_activation'?)"});
  CHECK(
      inline_faults(R"({"name": "r", "nodes": [{"name": "a", "op": "ad"}, {"name": "b", "op": "gelu"}],
                          "edges": [{"from": "a", "to": "c"}], "escapes": ["b"]})") ==
      std::vector<std::string>{"test.json:/inline/0/nodes/0/op: unknown kind of op 'ad' (did you mean 'add' or 'pad'?)",
                               "test.json:/inline/0/edges/0/to: unknown node 'c' (known: a, b)"});
  CHECK(inline_faults(R"({"name": "r", "nodes": [{"name": "a", "op": "add"}, {"name": "b", "op": "gelu"}],
                          "escapes": ["b"]})") ==
        std::vector<std::string>{"test.json:/inline/0/edges: expected edges that join all nodes"});
  CHECK(inline_faults(R"({"name": "r", "nodes": [{"name": "a", "op": "add"}], "escapes": ["a"]})") ==
        std::vector<std::string>{"test.json:/inline/0/nodes: expected two nodes at least that must match"});
  CHECK(inline_faults(
            R"({"name": "r", "nodes": [{"name": "a", "op": "add", "types": ["fp15"]}, {"name": "b", "op": "gelu"}],
                          "edges": [{"from": "a", "to": "b"}], "escapes": ["b"], "result": {"op": "attention"}})") ==
        std::vector<std::string>{
            "test.json:/inline/0/nodes/0/types: unknown element type 'fp15'",
            "test.json:/inline/0/result/inputs: expected the inputs of the op that replaces the match"});
}

TEST_CASE("every shipped rule reads", "[unit]") {
  for (const std::string& name : shipped_rules()) {
    CAPTURE(name);
    const std::vector<FusionRule> rules = load_rules({{{name}}, {}, {}});
    REQUIRE(rules.size() == 1);
    CHECK(rules[0].name == name);
    CHECK(!rules[0].patterns.empty());
  }
}

TEST_CASE("pattern fusion of random graphs keeps the work and moves no more", "[prop]") {
  const auto gpu = round_gpu();
  const std::string params = R"({"rules": ["add_norm", "gated_activation"], "inline": [
    {"name": "two", "nodes": [{"name": "a", "op": ["relu", "exp", "tanh", "scale"]}, {"name": "b", "op": ["add", "mul", "sub"]}],
     "edges": [{"from": "a", "to": "b"}], "escapes": ["a", "b"]},
    {"name": "epilogue", "nodes": [{"name": "m", "op": "matmul"}, {"name": "b", "op": ["gelu", "relu", "add"]}],
     "edges": [{"from": "m", "to": "b"}], "escapes": ["b"]}]})";
  double matched = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    sim::RandomStream random(seed, "pattern");
    const OpGraph graph = models::test::random_graph(random, {.ops = static_cast<int>(5 + 3 * seed)});
    PassContext context = sized(16);
    if (seed % 2 == 0) context.cost = gpu.get();
    CAPTURE(seed);
    PassReport report;
    const OpGraph fused = apply("pattern_fusion", graph, context, params, &report);
    check_fusion(graph, fused, {{{"batch", 1}}, {{"batch", 16}}, {{"batch", 4096}}});
    CHECK(to_string(fused) == to_string(apply("pattern_fusion", graph, context, params)));
    matched += figure(report, "groups");
  }
  CHECK(matched > 100);
}

}  // namespace test_fusion_pattern
