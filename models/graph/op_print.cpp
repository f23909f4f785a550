// Graphs as text.
#include <fmt/format.h>

#include "models/graph/op_graph.hpp"

namespace orrery::models {
namespace {

std::string text(const Attribute& value) {
  if (const auto* expression = std::get_if<SymExpr>(&value)) return expression->to_string();
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* string = std::get_if<std::string>(&value)) return fmt::format("\"{}\"", *string);
  std::string all = "[";
  for (const SymExpr& entry : std::get<std::vector<SymExpr>>(value))
    all += (all.size() > 1 ? ", " : "") + entry.to_string();
  return all + "]";
}

void print(const OpGraph& graph, const std::string& indent, std::string& out) {
  for (const TensorId id : graph.tensors()) {
    const Tensor& tensor = graph.tensor(id);
    if (tensor.role == TensorRole::activation) continue;
    out += fmt::format("{}{} %{}: {}", indent, to_string(tensor.role), tensor.name, shape_string(tensor));
    if (tensor.layout != Layout::row_major) out += fmt::format(" {}", to_string(tensor.layout));
    out += '\n';
  }
  for (const OpId id : graph.ops()) {
    const OpNode& op = graph.op(id);
    out += indent;
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const Tensor& tensor = graph.tensor(op.outputs[i]);
      out += fmt::format("{}%{}: {}", i > 0 ? ", " : "", tensor.name, shape_string(tensor));
      if (tensor.layout != Layout::row_major) out += fmt::format(" {}", to_string(tensor.layout));
      if (tensor.saved) out += " saved";
    }
    out += fmt::format("{}{}(", op.outputs.empty() ? "" : " = ", to_string(op.kind));
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      out += fmt::format("{}%{}", i > 0 ? ", " : "", graph.tensor(op.inputs[i]).name);
    out += ')';
    std::string attributes;
    for (const auto& [key, value] : op.attributes)
      attributes += fmt::format("{}{} = {}", attributes.empty() ? "" : ", ", key, text(value));
    if (!attributes.empty()) out += " {" + attributes + "}";
    if (op.phase != Phase::forward) out += fmt::format(" {}", to_string(op.phase));
    if (!op.dialect.empty()) out += fmt::format(" dialect {}", op.dialect);
    if (!op.target.empty()) out += fmt::format(" on {}", op.target);
    if (!op.scope.empty()) out += fmt::format(" \"{}\"", op.scope);
    out += '\n';
    for (const auto& region : op.regions) {
      out += indent + "  {\n";
      print(*region, indent + "    ", out);
      out += indent + "  }\n";
    }
  }
  for (const TensorId id : graph.outputs()) out += fmt::format("{}return %{}\n", indent, graph.tensor(id).name);
}

}  // namespace

std::string to_string(const OpGraph& graph) {
  std::string out = fmt::format("graph \"{}\"\n", graph.name);
  print(graph, "  ", out);
  return out;
}

}  // namespace orrery::models
