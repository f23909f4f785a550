// Rules as files: every fault with its place, what a rule becomes when it is read, and the order of a pattern's nodes.
#include "policies/fusion/fusion_rule.hpp"

#include <catch2/catch.hpp>

#include "sim/base/document.hpp"

namespace test_fusion_rule {

using namespace orrery;
using namespace orrery::policies;
using models::Attribute;
using models::OpKind;
using models::SymExpr;
using Lines = std::vector<std::string>;

namespace {

FusionRule rule_of(const std::string& text) {
  sim::Faults faults;
  const FusionRule rule = read_rule(sim::parse_json(text, "rule.json"), faults);
  faults.throw_if_any();
  return rule;
}

Lines faults_of(const std::string& text) {
  sim::Faults faults;
  read_rule(sim::parse_json(text, "rule.json"), faults);
  Lines lines;
  for (const sim::Fault& fault : faults.all()) lines.push_back(fault.text());
  return lines;
}

/// A rule of an addition and the GELU after it; `first` goes into the addition, `more` into the rule.
std::string pair_rule(const std::string& first, const std::string& more = "") {
  return R"({"name": "r", "nodes": [{"name": "a", "op": "add")" + first +
         R"(}, {"name": "g", "op": "gelu"}], "edges": [{"from": "a", "to": "g"}], "escapes": ["g"])" + more + "}";
}

/// A rule of four nodes in a row; `node` goes into the second and third.
std::string row_rule(const std::string& second, const std::string& third) {
  return R"({"name": "r", "nodes": [{"name": "a", "op": "relu"}, {"name": "b", "op": "exp")" + second +
         R"(}, {"name": "c", "op": "tanh")" + third + R"(}, {"name": "d", "op": "sub"}], "edges": [
    {"from": "a", "to": "b", "slot": 1, "output": 3}, {"from": "b", "to": "c", "slot": 2, "output": 4},
    {"from": "c", "to": "d", "slot": 5, "output": 6}], "escapes": ["d"]})";
}

/// "a b c": names of a pattern's nodes in their order.
std::string names(const Pattern& pattern) {
  std::string all;
  for (const PatternNode& node : pattern.nodes) all += (all.empty() ? "" : " ") + node.name;
  return all;
}
/// "a3>1b": from a's output 3 to b's input 1; "a=0b": both read one tensor as input 0.
Lines edges(const Pattern& pattern) {
  Lines all;
  for (const PatternEdge& edge : pattern.edges) {
    const std::string from = pattern.nodes.at(static_cast<std::size_t>(edge.from)).name,
                      to = pattern.nodes.at(static_cast<std::size_t>(edge.to)).name;
    all.push_back(from + (edge.shared ? "=" : std::to_string(edge.output) + ">") + std::to_string(edge.slot) + to);
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

TEST_CASE("a rule is read as it was written, and what is left out has a default", "[unit]") {
  const FusionRule rule = rule_of(R"({"name": "r", "doc": "Why.", "priority": 7, "compile_time": "3 s",
    "nodes": [{"name": "a", "op": ["add", "sub"], "types": ["fp16", "bf16"], "shape": ["*", "batch", "64"],
               "parameters": [1, 0], "phase": "backward", "attributes": {"z": 2, "eps": 0.5, "mode": "erf"}},
              {"name": "g", "op": "gelu"}],
    "edges": [{"from": "a", "to": "g"}], "escapes": ["g"],
    "result": {"name": "new", "dialect": "lib", "attributes": {"width": 4, "alpha": 1.5, "kind": "x"}}})");
  CHECK(rule.name == "r");
  CHECK(rule.doc == "Why.");
  CHECK(rule.priority == 7);
  CHECK(rule.compile_s == 3);
  CHECK(rule.dialect == "lib");
  CHECK(rule.result_name == "new");
  CHECK(rule.result == OpKind::fused);
  CHECK(rule.inputs.empty());
  CHECK(rule.attributes ==
        models::Attributes{{"alpha", 1.5}, {"kind", std::string("x")}, {"width", SymExpr(4)}});  // by name
  REQUIRE(rule.patterns.size() == 1);
  const PatternNode& node = rule.patterns[0].nodes.at(0);
  CHECK(node.kinds == std::vector<OpKind>{OpKind::add, OpKind::sub});
  CHECK(node.types == std::vector<models::ElementType>{models::ElementType::fp16, models::ElementType::bf16});
  REQUIRE(node.shape.size() == 3);
  CHECK(!node.shape[0]);
  CHECK(*node.shape[1] == SymExpr::dim("batch"));
  CHECK(*node.shape[2] == SymExpr(64));
  CHECK(node.parameters == std::vector<std::int64_t>{1, 0});
  CHECK(node.phase == models::Phase::backward);
  CHECK_FALSE(node.escapes);
  CHECK(node.attributes == models::Attributes{{"eps", 0.5}, {"mode", std::string("erf")}, {"z", SymExpr(2)}});
  const PatternNode& last = rule.patterns[0].nodes.at(1);
  CHECK(last.escapes);
  CHECK_FALSE(last.phase);
  CHECK(edges(rule.patterns[0]) == Lines{"a0>-1g"});  // any input of the GELU

  const FusionRule plain = rule_of(pair_rule(""));
  CHECK(plain.result_name == "r");
  CHECK(plain.priority == 10);
  CHECK(plain.compile_s == 0);
  CHECK(plain.dialect.empty());
}

TEST_CASE("faults of a rule's nodes name the node and its key", "[unit]") {
  CHECK(faults_of(pair_rule(R"(, "attributes": {"axis": [1], "keep": true})")) ==
        Lines{"rule.json:/nodes/0/attributes/axis: expected a number or a text, got an array",
              "rule.json:/nodes/0/attributes/keep: expected a number or a text, got true"});
  CHECK(faults_of(pair_rule(R"(, "phase": "backwards")")) ==
        Lines{"rule.json:/nodes/0/phase: expected a phase, got 'backwards' (did you mean 'backward'?)"});
  CHECK(faults_of(pair_rule(R"(, "phase": "zz")")) ==
        Lines{"rule.json:/nodes/0/phase: expected a phase, got 'zz' (known: backward, forward, optimizer)"});
  const Lines shape = faults_of(pair_rule(R"(, "shape": ["*", "2 *"])"));
  REQUIRE(shape.size() == 1);
  CHECK_THAT(shape[0], Catch::StartsWith("rule.json:/nodes/0/shape: size '2 *': "));
  CHECK(faults_of(R"({"name": "r", "nodes": [{"name": "a", "op": []}, {"name": "g", "op": "gelu"}],
                      "edges": [{"from": "a", "to": "g"}], "escapes": ["g"]})") ==
        Lines{"rule.json:/nodes/0/op: expected a kind of op at least"});
  CHECK(faults_of(R"({"name": "r", "nodes": [{"name": "a", "op": "add"}, {"name": "a", "op": "gelu"}],
                      "edges": [{"from": "a", "to": "a"}], "escapes": ["a"]})") ==
        Lines{"rule.json:/nodes/1/name: two nodes are named 'a'"});
  // Without any node nobody asks for edges between them.
  CHECK(faults_of(R"({"name": "r", "nodes": [], "edges": [{"from": "a", "to": "b"}],
                      "shared": [{"nodes": ["a"]}], "escapes": ["a"]})") ==
        Lines{"rule.json:/nodes: expected a node at least",
              "rule.json:/escapes: unknown node 'a' (none is allowed here)"});
}

TEST_CASE("faults of edges, of what is shared and of what escapes", "[unit]") {
  CHECK(faults_of(R"({"name": "r", "nodes": [{"name": "a", "op": "add"}, {"name": "g", "op": "gelu"}],
                      "edges": [{"from": "x", "to": "g"}, {"from": "a", "to": "y"}], "escapes": ["g", "w"]})") ==
        Lines{"rule.json:/edges/0/from: unknown node 'x' (known: a, g)",
              "rule.json:/edges/1/to: unknown node 'y' (known: a, g)",
              "rule.json:/escapes: unknown node 'w' (known: a, g)"});
  CHECK(faults_of(R"({"name": "r", "nodes": [{"name": "a", "op": "add"}, {"name": "g", "op": "gelu"}],
                      "shared": [{"nodes": ["a"]}, {"nodes": ["a", "h"]}], "escapes": []})") ==
        Lines{"rule.json:/shared/0/nodes: expected two nodes at least that share an input",
              "rule.json:/shared/1/nodes: unknown node 'h' (known: a, g)",
              "rule.json:/escapes: expected a node whose result is read outside"});
  // Two nodes are enough.
  CHECK(faults_of(R"({"name": "r", "nodes": [{"name": "a", "op": "add"}, {"name": "g", "op": "gelu"}],
                      "shared": [{"nodes": ["a", "g"]}], "escapes": ["a", "g"]})")
            .empty());
}

TEST_CASE("faults of a rule's kind and of what a match becomes", "[unit]") {
  CHECK(faults_of(pair_rule("", R"(, "kind": "rule")")) ==
        Lines{"rule.json:/kind: expected kind \"fusion_rule\", got \"rule\""});
  CHECK(faults_of(pair_rule("", R"(, "result": {"op": "attentio", "inputs": [{"node": "a", "slot": 0}]})")) ==
        Lines{"rule.json:/result/op: unknown kind of op 'attentio' (did you mean 'attention' or 'attention_grad'?)"});
  CHECK(faults_of(pair_rule("", R"(, "result": {"op": "attention", "inputs": [{"node": "b", "slot": 0}]})")) ==
        Lines{"rule.json:/result/inputs: unknown node 'b' (known: a, g)"});
  CHECK(faults_of(pair_rule("", R"(, "result": {"attributes": {"x": [1]}})")) ==
        Lines{"rule.json:/result/attributes/x: expected a number or a text, got an array"});
  const std::string two = R"({"name": "r", "nodes": [{"name": "a", "op": "add"}, {"name": "g", "op": "gelu"}],
    "edges": [{"from": "a", "to": "g"}], "escapes": ["a", "g"], "result": )";
  CHECK(faults_of(two + R"({"op": "custom", "inputs": [{"node": "a", "slot": 0}]}})") ==
        Lines{"rule.json:/escapes: expected one node: the new op's result"});
  CHECK(faults_of(two + R"({"op": "fused"}})").empty());  // a fused op may have any number of results
  // What the table of fields says is said alone.
  CHECK(faults_of(R"({"name": "r", "version": 2, "kind": "rule", "nodes": [], "escapes": []})").size() == 1);
}

TEST_CASE("optional nodes stand in a row: one edge in, one out, and no result for others", "[unit]") {
  const std::string fault =
      "rule.json:/nodes/1/optional: an optional node has one edge in, one out, and does not escape";
  const auto rule = [](const std::string& edges, const std::string& escapes) {
    return R"({"name": "r", "nodes": [{"name": "a", "op": "relu"}, {"name": "b", "op": "exp", "optional": true},
               {"name": "c", "op": "add"}], "edges": [)" +
           edges + R"(], "escapes": [)" + escapes + "]}";
  };
  const std::string in = R"({"from": "a", "to": "b"})", out = R"({"from": "b", "to": "c"})";
  CHECK(faults_of(rule(in + "," + out, R"("c")")).empty());
  CHECK(faults_of(rule(in + "," + out, R"("b", "c")")) == Lines{fault});
  CHECK(faults_of(rule(in + R"(, {"from": "a", "to": "c"})", R"("c")")) == Lines{fault});              // none out
  CHECK(faults_of(rule(out + R"(, {"from": "a", "to": "c"})", R"("c")")) == Lines{fault});             // none in
  CHECK(faults_of(rule(in + "," + in + "," + out, R"("c")")) == Lines{fault});                         // two in
  CHECK(faults_of(rule(in + "," + out + R"(, {"from": "b", "to": "c"})", R"("c")")) == Lines{fault});  // two out
}

TEST_CASE("a rule has two nodes at least that must match, and six at most that need not", "[unit]") {
  const auto rule = [](int optional, int fixed) {
    std::string nodes, edges;
    for (int i = 0; i < optional + fixed; ++i) {
      const std::string n = std::to_string(i), before = std::to_string(i - 1);
      const bool may = i > 0 && i <= optional;
      nodes += std::string(i > 0 ? "," : "") + R"({"name": "n)" + n + R"(", "op": "relu")" +
               (may ? R"(, "optional": true)" : "") + "}";
      if (i > 0) edges += std::string(i > 1 ? "," : "") + R"({"from": "n)" + before + R"(", "to": "n)" + n + R"("})";
    }
    return R"({"name": "r", "nodes": [)" + nodes + R"(], "edges": [)" + edges + R"(], "escapes": ["n)" +
           std::to_string(optional + fixed - 1) + R"("]})";
  };
  CHECK(rule_of(rule(6, 2)).patterns.size() == 64);
  CHECK(faults_of(rule(7, 2)) == Lines{"rule.json:/nodes: expected at most 6 optional nodes"});
  CHECK(faults_of(rule(1, 1)) == Lines{"rule.json:/nodes: expected two nodes at least that must match"});
  CHECK(faults_of(rule(0, 2)).empty());
}

TEST_CASE("a rule stands for its patterns with and without each optional node, largest first", "[unit]") {
  const std::string optional = R"(, "optional": true)";
  const FusionRule rule = rule_of(row_rule(optional, optional));
  REQUIRE(rule.patterns.size() == 4);
  CHECK(names(rule.patterns[0]) == "a b c d");
  CHECK(edges(rule.patterns[0]) == Lines{"a3>1b", "b4>2c", "c6>5d"});
  // Without a node, what it read goes where its result went: the output of the edge in, the slot of the edge out.
  CHECK(names(rule.patterns[1]) == "a c d");
  CHECK(edges(rule.patterns[1]) == Lines{"a3>2c", "c6>5d"});
  CHECK(names(rule.patterns[2]) == "a b d");
  CHECK(edges(rule.patterns[2]) == Lines{"a3>1b", "b4>5d"});
  CHECK(names(rule.patterns[3]) == "a d");
  CHECK(edges(rule.patterns[3]) == Lines{"a3>5d"});
  for (const Pattern& pattern : rule.patterns) {
    CHECK(pattern.nodes.back().escapes);
    CHECK_FALSE(pattern.nodes.front().escapes);
  }
  CHECK(rule_of(row_rule("", "")).patterns.size() == 1);
}

TEST_CASE("what nodes share stays where a node before them is left out", "[unit]") {
  const FusionRule rule = rule_of(R"({"name": "r", "nodes": [{"name": "a", "op": "relu"},
    {"name": "b", "op": "exp", "optional": true}, {"name": "c", "op": "add"}, {"name": "d", "op": "mul"},
    {"name": "e", "op": "sub"}],
    "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "c", "slot": 0}],
    "shared": [{"nodes": ["c", "d", "e"], "slot": 1}], "escapes": ["c", "d", "e"]})");
  REQUIRE(rule.patterns.size() == 2);
  CHECK(edges(rule.patterns[0]) == Lines{"a0>-1b", "b0>0c", "c=1d", "c=1e"});
  CHECK(edges(rule.patterns[1]) == Lines{"a0>0c", "c=1d", "c=1e"});
}

TEST_CASE("nodes are ordered from a start, each joined to one before it", "[unit]") {
  // e -> a -> b -> c and d -> b, by number: 4 -> 0 -> 1 -> 2, 3 -> 1.
  Pattern pattern;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    PatternNode node;
    node.name = name;
    pattern.nodes.push_back(node);
  }
  pattern.edges = {{0, 1, 7, 8}, {1, 2, 0, 0}, {3, 1, 1, 0}, {4, 0, 0, 2}};
  const Lines before = edges(pattern);
  for (const auto& [start, order] : std::vector<std::pair<std::int32_t, std::string>>{
           {0, "a b e c d"}, {2, "c b a d e"}, {3, "d b a c e"}, {4, "e a b c d"}}) {
    Pattern turned = pattern;
    CAPTURE(start);
    CHECK(order_nodes(turned, start));
    CHECK(names(turned) == order);
    CHECK(edges(turned) == before);  // of the same nodes, wherever they stand now
  }
  pattern.edges.pop_back();  // e is alone
  Pattern apart = pattern;
  CHECK_FALSE(order_nodes(apart, 0));
  CHECK(names(apart) == "a b c d e");  // as it was
  CHECK(edges(apart) == edges(pattern));
}

TEST_CASE("rules are sorted by priority, the highest first, then by name", "[unit]") {
  RuleChoice choice;
  choice.names.items = {"softmax", "attention_causal", "attention"};  // of priorities below 90, 40 and 40
  const auto add = [&](const std::string& name, int priority) {
    choice.inline_rules.push_back(
        sim::parse_json(R"({"name": ")" + name + R"(", "priority": )" + std::to_string(priority) +
                            R"(, "nodes": [{"name": "a", "op": "add"}, {"name": "g", "op": "gelu"}],
               "edges": [{"from": "a", "to": "g"}], "escapes": ["g"]})",
                        "rule.json"));
  };
  add("z", 90);
  add("y", -5);
  add("b", 90);
  add("attention_b", 40);
  std::vector<std::string> order;
  for (const FusionRule& rule : load_rules(choice))
    if (rule.name != "softmax") order.push_back(rule.name);
  CHECK(order == Lines{"b", "z", "attention", "attention_b", "attention_causal", "y"});
}

TEST_CASE("faults of several rules come together, those of names first", "[unit]") {
  RuleChoice choice;
  choice.names.items = {"atention"};
  choice.inline_rules = {sim::parse_json(R"({"name": "r"})", "one.json"),
                         sim::parse_json(pair_rule(R"(, "types": ["fp15"])"), "two.json")};
  Lines lines;
  try {
    load_rules(choice);
  } catch (const sim::ConfigError& error) {
    for (const sim::Fault& fault : error.faults()) lines.push_back(fault.text());
  }
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == "/rules: unknown fusion rule 'atention' (did you mean 'attention'?)");
  CHECK_THAT(lines[1], Catch::Contains("one.json") && Catch::Contains("nodes"));
  CHECK_THAT(lines[2], Catch::Contains("one.json") && Catch::Contains("escapes"));
  CHECK(lines[3] == "two.json:/nodes/0/types: unknown element type 'fp15'");
  CHECK(std::ranges::is_sorted(shipped_rules()));
}

}  // namespace test_fusion_rule
