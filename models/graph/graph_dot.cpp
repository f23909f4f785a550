#include "models/graph/graph_dot.hpp"

#include <fmt/format.h>

#include <array>

namespace orrery::models {
namespace {

/// Fills by Pattern: view, elementwise, injective, reduction, matrix, opaque, communication, structure.
constexpr std::array<const char*, 8> kFills{"white",     "lightyellow", "lightgoldenrod", "lightgreen",
                                            "lightblue", "lightgrey",   "lightpink",      "lavender"};

std::string dot_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + '"';
}

class DotWriter {
 public:
  std::string write(const OpGraph& graph) {
    out_ = fmt::format("digraph {} {{\n  rankdir = TB;\n  node [fontsize = 10];\n  edge [fontsize = 9];\n",
                       dot_string(graph.name));
    body(graph, "  ", "");
    return out_ + "}\n";
  }

 private:
  /// `prefix` keeps the nodes of regions apart.
  void body(const OpGraph& graph, const std::string& indent, const std::string& prefix) {
    for (const TensorId id : graph.tensors()) {
      const Tensor& tensor = graph.tensor(id);
      if (graph.producer(id) || (graph.consumers(id).empty() && !graph.is_output(id))) continue;
      out_ += fmt::format("{}{}t{} [shape = ellipse, label = {}];\n", indent, prefix, index(id),
                          dot_string(fmt::format("{} {}", to_string(tensor.role), tensor.name)));
    }
    for (const OpId id : graph.ops()) node(graph, id, indent, prefix);
    for (const OpId id : graph.ops())
      for (std::size_t slot = 0; slot < graph.op(id).inputs.size(); ++slot)
        arrow(graph, graph.op(id).inputs[slot], fmt::format("{}o{}", prefix, index(id)), indent, prefix);
    int place = 0;
    for (const TensorId id : graph.outputs()) {
      const std::string name = fmt::format("{}out{}", prefix, place++);
      out_ += fmt::format("{}{} [shape = plaintext, label = {}];\n", indent, name,
                          dot_string("return " + graph.tensor(id).name));
      arrow(graph, id, name, indent, prefix);
    }
  }

  void node(const OpGraph& graph, OpId id, const std::string& indent, const std::string& prefix) {
    const OpNode& op = graph.op(id);
    const std::string label =
        op.name == to_string(op.kind) ? op.name : fmt::format("{}\n{}", to_string(op.kind), op.name);
    out_ += fmt::format("{}{}o{} [shape = box, style = filled, fillcolor = {}, label = {}];\n", indent, prefix,
                        index(id), kFills[static_cast<std::size_t>(info(op.kind).pattern)], dot_string(label));
    for (std::size_t i = 0; i < op.regions.size(); ++i) {
      const std::string inner = fmt::format("{}o{}r{}_", prefix, index(id), i);
      out_ += fmt::format("{}subgraph cluster_{} {{\n{}  label = {};\n", indent, inner, indent,
                          dot_string(fmt::format("{} region {}", op.name, i)));
      body(*op.regions[i], indent + "  ", inner);
      out_ += indent + "}\n";
    }
  }

  void arrow(const OpGraph& graph, TensorId tensor, const std::string& to, const std::string& indent,
             const std::string& prefix) {
    const std::optional<OpId> maker = graph.producer(tensor);
    const std::string from =
        maker ? fmt::format("{}o{}", prefix, index(*maker)) : fmt::format("{}t{}", prefix, index(tensor));
    out_ += fmt::format("{}{} -> {} [label = {}];\n", indent, from, to, dot_string(shape_string(graph.tensor(tensor))));
  }

  std::string out_;
};

}  // namespace

std::string to_dot(const OpGraph& graph) {
  return DotWriter().write(graph);
}

}  // namespace orrery::models
