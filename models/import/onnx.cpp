// ONNX files: the walk over a graph's nodes, and control flow.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "models/graph/file_order.hpp"
#include "models/import/file_bytes.hpp"
#include "models/import/onnx_reader.hpp"
#include "models/import/protobuf_log.hpp"
#include "sim/base/fault.hpp"

namespace orrery::models {
namespace onnx {
namespace {

/// Nodes so that each follows those whose outputs it reads.
std::vector<const Node*> sorted_nodes(const Reader& reader, const onnx_file::Graph& source) {
  std::unordered_map<std::string, std::size_t> makers;
  for (int i = 0; i < source.node_size(); ++i)
    for (const std::string& output : source.node(i).output())
      if (!output.empty()) makers.try_emplace(output, static_cast<std::size_t>(i));
  std::vector<std::vector<std::size_t>> waits_for(static_cast<std::size_t>(source.node_size()));
  const std::function<void(const onnx_file::Graph&, std::size_t)> wait = [&](const onnx_file::Graph& graph,
                                                                             std::size_t node) {
    for (const Node& inner : graph.node()) {
      for (const std::string& input : inner.input())
        if (const auto maker = makers.find(input); maker != makers.end() && maker->second != node)
          waits_for[node].push_back(maker->second);
      for (const onnx_file::Attribute& attribute : inner.attribute())
        if (attribute.has_g()) wait(attribute.g(), node);
    }
  };
  for (int i = 0; i < source.node_size(); ++i) {
    const auto node = static_cast<std::size_t>(i);
    for (const std::string& input : source.node(i).input())
      if (const auto maker = makers.find(input); maker != makers.end()) waits_for[node].push_back(maker->second);
    for (const onnx_file::Attribute& attribute : source.node(i).attribute())
      if (attribute.has_g()) wait(attribute.g(), node);
  }
  const FileOrder sorted = file_order(waits_for);
  if (!sorted.cycle.empty()) {
    std::string names;
    for (const std::size_t i : sorted.cycle) names += Reader::label(source.node(static_cast<int>(i))) + " -> ";
    reader.fail("the nodes are in a cycle: " + names +
                Reader::label(source.node(static_cast<int>(sorted.cycle.front()))));
  }
  std::vector<const Node*> nodes;
  for (const std::size_t i : sorted.order) nodes.push_back(&source.node(static_cast<int>(i)));
  return nodes;
}

}  // namespace

void Reader::read_values(const onnx_file::Graph& source, bool inputs) {
  for (const auto* list : {&source.value_info(), &source.output()})
    for (const onnx_file::ValueInfo& value : *list) described_.emplace(value.name(), &value);
  for (const onnx_file::Tensor& weight : source.initializer()) put_weight(weight, weight.name(), true);
  if (!inputs) return;
  for (const onnx_file::ValueInfo& input : source.input()) {
    if (find(input.name()) != nullptr) continue;  // older files list weights among the inputs
    if (!input.type().has_tensor_type() || !input.type().tensor_type().has_shape())
      fail(fmt::format("input '{}': expected a tensor with a shape", input.name()));
    Value value;
    try {
      value.type = element(input.type().tensor_type().elem_type());
    } catch (const Unmappable&) {
      value.type = ElementType::int64;
    }
    value.shape = dims(input.type().tensor_type().shape(), input.name());
    value.role = TensorRole::input;
    put(input.name(), std::move(value));
    tensor(input.name());
  }
}

void Reader::read_nodes(const onnx_file::Graph& source) {
  for (const Node* node : sorted_nodes(*this, source)) read_node(*node);
}

void Reader::read_node(const Node& node) {
  try {
    if (fold(*this, node)) {
      ++import_.folded;
      return;
    }
    if (read_control_flow(node)) return;
    const Handler* handler = handler_of(node);
    if (handler == nullptr) {
      custom(node);
      return;
    }
    try {
      (*handler)(*this, node);
    } catch (const Unmappable&) {
      custom(node);
    }
  } catch (const GraphError& error) {
    fail(fmt::format("{}: {}", label(node), error.what()));
  } catch (const Unmappable&) {
    fail(fmt::format("{}: its operands are not known", label(node)));
  } catch (const std::overflow_error& error) {
    fail(fmt::format("{}: {}", label(node), error.what()));
  }
}

void Reader::mark(const std::string& name) {
  if (find(name) == nullptr) fail(fmt::format("output '{}': no node makes it", name));
  TensorId result = tensor(name);
  if (graph.is_output(result)) {  // given twice: a region has as many outputs as its op
    const Tensor& old = graph.tensor(result);
    result = graph.emit(OpKind::reshape, {result}, old.shape, old.type);
  }
  graph.mark_output(result);
}

void Reader::read_model(const onnx_file::Graph& source) {
  graph.name = source.name();
  read_values(source, true);
  read_nodes(source);
  for (const onnx_file::ValueInfo& output : source.output()) mark(output.name());
}

void Reader::read_region(const onnx_file::Graph& source, const std::vector<std::string>& captured,
                         std::size_t skip_outputs) {
  for (const std::string& name : captured) {
    Value value = *outer_->find(name);
    value.tensor = graph.input(graph.find_tensor(name) ? std::string{} : name, value.shape, value.type);
    put(name, std::move(value));
  }
  read_values(source, false);
  read_nodes(source);
  for (int i = static_cast<int>(skip_outputs); i < source.output_size(); ++i) mark(source.output(i).name());
}

/// Names that graphs read and do not make, in the order of reading; only those that are tensors or weights here.
std::vector<std::string> Reader::captures(const std::vector<const onnx_file::Graph*>& sources) const {
  std::vector<std::string> names;
  const std::function<void(const onnx_file::Graph&)> visit = [&](const onnx_file::Graph& source) {
    const auto take = [&](const std::string& name) {
      if (!name.empty() && find(name) != nullptr && std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
    };
    for (const Node& node : source.node()) {
      for (const std::string& input : node.input()) take(input);
      for (const onnx_file::Attribute& attribute : node.attribute())
        if (attribute.has_g()) visit(attribute.g());
    }
    for (const onnx_file::ValueInfo& output : source.output()) take(output.name());
  };
  for (const onnx_file::Graph* source : sources) visit(*source);
  return names;
}

bool Reader::read_control_flow(const Node& node) {
  if (!node.domain().empty()) return false;
  if (node.op_type() == "If")
    read_if(node);
  else if (node.op_type() == "Loop")
    read_loop(node);
  else
    return false;
  return true;
}

void Reader::read_if(const Node& node) {
  const auto *then_side = attribute(node, "then_branch"), *else_side = attribute(node, "else_branch");
  if (then_side == nullptr || else_side == nullptr) throw GraphError("expected then_branch and else_branch");
  const std::vector<std::string> captured = captures({&then_side->g(), &else_side->g()});
  OpNode op = op_of(node, OpKind::branch);
  op.inputs.push_back(tensor(node, 0));
  for (const std::string& name : captured) op.inputs.push_back(tensor(name));
  if (const auto& condition = value(node, 0).data; condition && condition->size() == 1)
    op.set("condition", condition->front());
  else
    import_.notes.insert(
        "If: which branch is taken is not in the file; the first is, unless attribute 'condition' says");
  std::vector<Tensor> outputs;
  for (const onnx_file::Graph* side : {&then_side->g(), &else_side->g()}) {
    Reader inner(import_, this);
    inner.graph.name = side->name();
    inner.graph.input("condition", value(node, 0).shape, value(node, 0).type);
    inner.read_region(*side, captured, 0);
    if (outputs.empty())
      for (const TensorId id : inner.graph.outputs())
        outputs.push_back({.shape = inner.graph.tensor(id).shape, .type = inner.graph.tensor(id).type});
    op.regions.push_back(std::make_shared<const OpGraph>(std::move(inner.graph)));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (wants(node, static_cast<int>(i))) outputs[i].name = node.output(static_cast<int>(i));
  const OpId id = graph.add(std::move(op), std::move(outputs));
  for (std::size_t i = 0; i < graph.op(id).outputs.size(); ++i)
    give(node, static_cast<int>(i), graph.op(id).outputs[i]);
}

void Reader::read_loop(const Node& node) {
  const auto* body = attribute(node, "body");
  if (body == nullptr) throw GraphError("expected a body");
  const onnx_file::Graph& source = body->g();
  if (source.input_size() != node.input_size() || source.output_size() < 1 + node.input_size() - 2)
    throw GraphError(fmt::format("the body takes {} values and gives {}, the node has {} inputs", source.input_size(),
                                 source.output_size(), node.input_size()));
  OpNode op = op_of(node, OpKind::loop);
  SymExpr trips = SymExpr::dim(fmt::format("loop{}.trips", graph.op_count()));
  if (has(node, 0) && value(node, 0).data && value(node, 0).data->size() == 1 &&
      value(node, 0).data->front() != SymExpr(std::numeric_limits<std::int64_t>::max()))
    trips = value(node, 0).data->front();
  op.set("trips", trips);
  Reader inner(import_, this);
  inner.graph.name = source.name();
  inner.put_iteration(source);
  const int carried = node.input_size() - 2;
  for (int i = 0; i < carried; ++i) {
    op.inputs.push_back(tensor(node, 2 + i));
    const Tensor& initial = graph.tensor(op.inputs.back());
    Value value{.shape = initial.shape, .type = initial.type};
    value.tensor = inner.graph.input(source.input(2 + i).name(), initial.shape, initial.type);
    inner.put(source.input(2 + i).name(), std::move(value));
  }
  const std::vector<std::string> captured = captures({&source});
  for (const std::string& name : captured) op.inputs.push_back(tensor(name));
  inner.read_region(source, captured, 1);
  std::vector<Tensor> outputs;
  for (const TensorId id : inner.graph.outputs()) {
    const auto place = static_cast<int>(outputs.size());
    Dims shape = inner.graph.tensor(id).shape;
    if (place >= carried) shape.insert(shape.begin(), trips);
    outputs.push_back({.shape = std::move(shape), .type = inner.graph.tensor(id).type});
    if (wants(node, place)) outputs.back().name = node.output(place);
  }
  op.regions.push_back(std::make_shared<const OpGraph>(std::move(inner.graph)));
  const OpId id = graph.add(std::move(op), std::move(outputs));
  for (std::size_t i = 0; i < graph.op(id).outputs.size(); ++i)
    give(node, static_cast<int>(i), graph.op(id).outputs[i]);
}

/// A loop's counter and condition: there before each trip, made by nobody.
void Reader::put_iteration(const onnx_file::Graph& body) {
  Value counter{.type = ElementType::int64}, condition{.type = ElementType::boolean};
  put(body.input(0).name(), std::move(counter));
  put(body.input(1).name(), std::move(condition));
}

}  // namespace onnx

Imported import_onnx(const std::filesystem::path& file) {
  const std::string bytes = read_bytes(file);
  silence_protobuf();
  onnx_file::Model model;
  // A weight past 2 GiB stands in a file of its own, by the format.
  const bool whole =
      bytes.size() < (std::size_t{1} << 31) && model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  if (!whole || !model.has_graph() || model.opset_import_size() == 0)
    sim::throw_fault({file.string(), ""}, fmt::format("expected a whole ONNX model, got {} bytes that are damaged, cut "
                                                      "off or of another format",
                                                      bytes.size()));
  onnx::Import import{.file = file.string()};
  for (const onnx_file::OperatorSet& set : model.opset_import())
    if (set.domain().empty() || set.domain() == "ai.onnx") import.opset = set.version();
  onnx::Reader reader(import, nullptr);
  reader.read_model(model.graph());
  Imported out;
  out.graph = std::move(reader.graph);
  out.unmapped.assign(import.unmapped.begin(), import.unmapped.end());
  out.notes.assign(import.notes.begin(), import.notes.end());
  if (import.folded > 0)
    out.notes.push_back(fmt::format("{} constants and shape computations were folded", import.folded));
  if (import.unknown_shapes > 0)
    out.notes.push_back(fmt::format("{} tensors have no shape in the file: a dimension NAME.elements stands for each",
                                    import.unknown_shapes));
  if (import.sixteen_bit > 0)
    out.notes.push_back(fmt::format("{} tensors of 16-bit integers count as 32-bit ones", import.sixteen_bit));
  return out;
}

}  // namespace orrery::models
