#include "models/graph/graph_json.hpp"

#include <fmt/format.h>

#include <cmath>
#include <set>

namespace orrery::models {
namespace {

using sim::Node;

Node text_node(std::string_view text) {
  return Node::string(std::string(text));
}

/// A size in a list: a number, or a formula as text.
Node size_node(const SymExpr& size) {
  return size.constant() ? Node::integer(*size.constant()) : Node::string(size.to_string());
}

Node list_node(std::span<const SymExpr> sizes) {
  Node list = Node::array();
  for (const SymExpr& size : sizes) list.push(size_node(size));
  return list;
}

Node wrapped(const char* key, Node value) {
  Node node = Node::object();
  node.set(key, std::move(value));
  return node;
}

Node number_node(double value) {
  if (!std::isfinite(value)) return wrapped("number", Node::string(fmt::format("{}", value)));
  // A whole number would be read back as a size.
  return value == std::floor(value) ? wrapped("number", Node::real(value)) : Node::real(value);
}

Node attribute_node(const Attribute& value) {
  if (const auto* size = std::get_if<SymExpr>(&value))
    return size->constant() ? size_node(*size) : wrapped("expr", size_node(*size));
  if (const auto* number = std::get_if<double>(&value)) return number_node(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return Node::string(*text);
  return list_node(std::get<std::vector<SymExpr>>(value));
}

Node tensor_node(const Tensor& tensor) {
  Node node = Node::object();
  node.set("name", text_node(tensor.name));
  if (tensor.role != TensorRole::activation) node.set("role", text_node(to_string(tensor.role)));
  node.set("type", text_node(to_string(tensor.type)));
  node.set("shape", list_node(tensor.shape));
  if (tensor.layout != Layout::row_major) node.set("layout", text_node(to_string(tensor.layout)));
  if (tensor.saved) node.set("saved", Node::boolean(true));
  return node;
}

Node names_node(const OpGraph& graph, std::span<const TensorId> tensors) {
  Node list = Node::array();
  for (const TensorId id : tensors) list.push(text_node(graph.tensor(id).name));
  return list;
}

Node op_node(const OpGraph& graph, const OpNode& op) {
  Node node = Node::object();
  node.set("name", text_node(op.name));
  node.set("op", text_node(to_string(op.kind)));
  node.set("in", names_node(graph, op.inputs));
  Node out = Node::array();
  for (const TensorId id : op.outputs) out.push(tensor_node(graph.tensor(id)));
  node.set("out", std::move(out));
  if (!op.attributes.empty()) {
    Node attributes = Node::object();
    for (const auto& [key, value] : op.attributes) attributes.set(key, attribute_node(value));
    node.set("attributes", std::move(attributes));
  }
  if (!op.scope.empty()) node.set("scope", text_node(op.scope));
  if (op.phase != Phase::forward) node.set("phase", text_node(to_string(op.phase)));
  if (!op.dialect.empty()) node.set("dialect", text_node(op.dialect));
  if (!op.target.empty()) node.set("target", text_node(op.target));
  if (op.op_class != hw::OpClass::residual) node.set("class", text_node(hw::to_string(op.op_class)));
  if (!op.regions.empty()) {
    Node regions = Node::array();
    for (const auto& region : op.regions) regions.push(to_json(*region));
    node.set("regions", std::move(regions));
  }
  return node;
}

void collect(const SymExpr& expression, std::set<Symbol>& out) {
  for (const Symbol symbol : expression.symbols()) out.insert(symbol);
}

/// Dimensions of the graph, its facts and its regions, with what is known of them.
void set_facts(const OpGraph& graph, Node& node) {
  std::set<Symbol> symbols;
  for (const Symbol symbol : graph.symbols()) symbols.insert(symbol);
  for (const auto& [symbol, range] : graph.facts.ranges()) symbols.insert(symbol);
  for (const auto& [symbol, size] : graph.facts.equalities()) {
    symbols.insert(symbol);
    collect(size, symbols);
  }
  for (const auto& [symbol, divisor] : graph.facts.divisors()) symbols.insert(symbol);
  Node dims = Node::object(), equal = Node::object(), divisible = Node::object();
  for (const Symbol symbol : symbols) {
    const Bounds range = graph.facts.range(symbol);
    Node ends = Node::array();
    ends.push(range.lo ? Node::integer(*range.lo) : Node{});
    ends.push(range.hi ? Node::integer(*range.hi) : Node{});
    dims.set(symbol.name(), std::move(ends));
  }
  for (const auto& [symbol, size] : graph.facts.equalities()) equal.set(symbol.name(), size_node(size));
  for (const auto& [symbol, divisor] : graph.facts.divisors()) divisible.set(symbol.name(), Node::integer(divisor));
  node.set("dims", std::move(dims));
  if (!equal.members().empty()) node.set("equal", std::move(equal));
  if (!divisible.members().empty()) node.set("divisible", std::move(divisible));
}

}  // namespace

Node to_json(const OpGraph& graph) {
  Node node = Node::object();
  node.set("graph", text_node(graph.name));
  set_facts(graph, node);
  Node tensors = Node::array();
  for (const TensorId id : graph.tensors())
    if (graph.tensor(id).role != TensorRole::activation) tensors.push(tensor_node(graph.tensor(id)));
  node.set("tensors", std::move(tensors));
  Node ops = Node::array();
  for (const OpId id : graph.ops()) ops.push(op_node(graph, graph.op(id)));
  node.set("ops", std::move(ops));
  node.set("outputs", names_node(graph, graph.outputs()));
  return node;
}

std::string json_text(const OpGraph& graph) {
  const Node node = to_json(graph);
  std::string out = "{";
  for (const auto& [key, value] : node.members()) {
    out += fmt::format("{}\n  \"{}\": ", out.size() > 1 ? "," : "", key);
    if (key != "tensors" && key != "ops") {
      out += value.dump(0);
      continue;
    }
    out += '[';
    for (std::size_t i = 0; i < value.items().size(); ++i)
      out += fmt::format("{}\n    {}", i > 0 ? "," : "", value.items()[i].dump(0));
    out += value.items().empty() ? "]" : "\n  ]";
  }
  return out + "\n}\n";
}

}  // namespace orrery::models
