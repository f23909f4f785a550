// Values of an ONNX graph: types, sizes, weights, attributes.
#include <fmt/format.h>

#include <cctype>
#include <cstring>

#include "models/import/onnx_reader.hpp"
#include "sim/base/fault.hpp"

namespace orrery::models::onnx {
namespace {

/// A name that a dimension may have.
Symbol symbol_of(const std::string& name) {
  std::string safe;
  for (const char c : name) safe += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' ? c : '_';
  if (safe.empty() || std::isdigit(static_cast<unsigned char>(safe[0])) != 0 || safe[0] == '.') safe = "d" + safe;
  return Symbol(safe);
}

SymExpr dim_of(const onnx_file::Shape::Dim& dim, const std::string& name, int axis) {
  if (dim.value_case() == onnx_file::Shape::Dim::kDimValue && dim.dim_value() >= 0) return dim.dim_value();
  if (dim.value_case() == onnx_file::Shape::Dim::kDimParam && !dim.dim_param().empty()) {
    try {  // exporters write formulas too: "past + tokens"
      return SymExpr::parse(dim.dim_param());
    } catch (const std::exception&) {
      return symbol_of(dim.dim_param());
    }
  }
  return symbol_of(fmt::format("{}.{}", name, axis));
}

std::optional<double> number_of(const onnx_file::Tensor& tensor) {
  if (tensor.data_type() != 1) return std::nullopt;
  if (tensor.float_data_size() == 1) return static_cast<double>(tensor.float_data(0));
  if (tensor.raw_data().size() != sizeof(float)) return std::nullopt;
  float item = 0;
  std::memcpy(&item, tensor.raw_data().data(), sizeof(float));
  return static_cast<double>(item);
}

}  // namespace

std::optional<Dims> integers_of(const onnx_file::Tensor& tensor, std::size_t count) {
  const std::string& raw = tensor.raw_data();
  const auto read = [&]<class T>(T) {
    Dims out;
    for (std::size_t i = 0; i < count && (i + 1) * sizeof(T) <= raw.size(); ++i) {
      T item;
      std::memcpy(&item, raw.data() + i * sizeof(T), sizeof(T));
      out.emplace_back(static_cast<std::int64_t>(item));
    }
    return out;
  };
  Dims out;
  if (tensor.data_type() == 7) {
    if (!raw.empty()) out = read(std::int64_t{});
    for (const std::int64_t item : tensor.int64_data()) out.emplace_back(item);
  } else if (tensor.data_type() == 6 || tensor.data_type() == 9) {
    if (!raw.empty()) out = tensor.data_type() == 6 ? read(std::int32_t{}) : read(std::uint8_t{});
    for (const std::int32_t item : tensor.int32_data()) out.emplace_back(static_cast<std::int64_t>(item));
  } else {
    return std::nullopt;
  }
  return out.size() == count ? std::optional(out) : std::nullopt;
}

std::size_t axis_of(std::int64_t axis, std::size_t rank) {
  const auto size = static_cast<std::int64_t>(rank);
  if (axis < -size || axis >= size) throw GraphError(fmt::format("axis {} of {} dimensions", axis, rank));
  return static_cast<std::size_t>(axis < 0 ? axis + size : axis);
}

void Reader::fail(const std::string& message) const {
  sim::throw_fault({import_.file, ""}, message);
}

std::string Reader::label(const Node& node) {
  const std::string& name = !node.name().empty()     ? node.name()
                            : node.output_size() > 0 ? node.output(0)
                                                     : node.op_type();
  return fmt::format("node '{}' ({})", name, node.op_type());
}

ElementType Reader::element(int onnx_type) {
  switch (onnx_type) {  // TensorProto.DataType
    case 1:
      return ElementType::fp32;
    case 2:
    case 3:
      return ElementType::int8;
    case 4:
    case 5:
      ++import_.sixteen_bit;
      return ElementType::int32;
    case 6:
    case 12:
      return ElementType::int32;
    case 7:
    case 13:
      return ElementType::int64;
    case 9:
      return ElementType::boolean;
    case 10:
      return ElementType::fp16;
    case 11:
      return ElementType::fp64;
    case 14:
    case 15:
      return ElementType::complex64;
    case 16:
      return ElementType::bf16;
    case 17:
    case 18:
    case 19:
    case 20:
      return ElementType::fp8;
    default:
      throw Unmappable();
  }
}

Dims Reader::dims(const onnx_file::Shape& shape, const std::string& name) const {
  Dims out;
  for (int i = 0; i < shape.dim_size(); ++i) out.push_back(dim_of(shape.dim(i), name, i));
  return out;
}

void Reader::put_weight(const onnx_file::Tensor& source, const std::string& name, bool parameter) {
  Value weight;
  try {
    weight.type = element(source.data_type());
  } catch (const Unmappable&) {
    weight.type = ElementType::int64;
    import_.notes.insert("texts count as 8 bytes each");
  }
  std::size_t count = 1;
  for (const std::int64_t size : source.dims()) {
    if (size < 0) fail(fmt::format("weight '{}': expected sizes of at least 0, got {}", name, size));
    weight.shape.emplace_back(size);
    count = count > kMostData || size > 1 << 20 ? kMostData + 1 : count * static_cast<std::size_t>(size);
  }
  if (weight.shape.size() <= 1 && count <= kMostData) weight.data = integers_of(source, count);
  if (count == 1) weight.number = number_of(source);
  weight.role = parameter && count > 1 && !weight.data ? TensorRole::parameter : TensorRole::constant;
  put(name, std::move(weight));
}

const onnx_file::Attribute* Reader::attribute(const Node& node, std::string_view name) {
  for (const onnx_file::Attribute& attribute : node.attribute())
    if (attribute.name() == name) return &attribute;
  return nullptr;
}
std::int64_t Reader::integer(const Node& node, std::string_view name, std::int64_t fallback) {
  const auto* found = attribute(node, name);
  return found == nullptr ? fallback : found->i();
}
double Reader::number(const Node& node, std::string_view name, double fallback) {
  const auto* found = attribute(node, name);
  return found == nullptr ? fallback : static_cast<double>(found->f());
}
std::string Reader::text(const Node& node, std::string_view name) {
  const auto* found = attribute(node, name);
  return found == nullptr ? std::string{} : found->s();
}
std::vector<std::int64_t> Reader::integers(const Node& node, std::string_view name) {
  const auto* found = attribute(node, name);
  if (found == nullptr) return {};
  return {found->ints().begin(), found->ints().end()};
}

const Value* Reader::find(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

const Value& Reader::value(const Node& node, int i) const {
  const Value* found = has(node, i) ? find(node.input(i)) : nullptr;
  if (found != nullptr) return *found;
  if (!has(node, i)) throw GraphError(fmt::format("expected input {}", i));
  throw GraphError(fmt::format("no value is named '{}'", node.input(i)));
}

const Dims& Reader::shape(const Node& node, int i) const {
  const Value& input = value(node, i);
  if (!input.shaped) throw Unmappable();
  return input.shape;
}

TensorId Reader::tensor(const Node& node, int i) {
  static_cast<void>(value(node, i));
  return tensor(node.input(i));
}

TensorId Reader::tensor(const std::string& name) {
  Value& found = values_.at(name);
  if (!found.tensor) {
    Tensor weight;
    weight.name = graph.find_tensor(name) ? std::string{} : name;
    weight.shape = found.shape;
    weight.type = found.type;
    weight.role = found.role;
    found.tensor = graph.add_tensor(std::move(weight));
  }
  return *found.tensor;
}

std::optional<std::vector<std::int64_t>> Reader::list(const Node& node, std::string_view name, int i) const {
  if (attribute(node, name) != nullptr) return integers(node, name);
  if (!has(node, i)) return std::nullopt;
  const Value& input = value(node, i);
  if (!input.data) throw Unmappable();
  std::vector<std::int64_t> out;
  for (const SymExpr& item : *input.data) {
    if (!item.constant()) throw Unmappable();
    out.push_back(*item.constant());
  }
  return out;
}

std::optional<Value> Reader::described(const std::string& name) {
  const auto found = described_.find(name);
  if (found == described_.end() || !found->second->type().has_tensor_type()) return std::nullopt;
  const auto& type = found->second->type().tensor_type();
  if (!type.has_shape()) return std::nullopt;
  Value out;
  try {
    out.type = element(type.elem_type());
  } catch (const Unmappable&) {
    out.type = ElementType::int64;
  }
  out.shape = dims(type.shape(), name);
  return out;
}

void Reader::put(const std::string& name, Value value) {
  if (!values_.try_emplace(name, std::move(value)).second)
    fail(fmt::format("the name '{}' is given to two values", name));
}

void Reader::give(const Node& node, int i, TensorId tensor) {
  if (!wants(node, i)) return;
  Value out;
  out.tensor = tensor;
  out.shape = graph.tensor(tensor).shape;
  out.type = graph.tensor(tensor).type;
  put(node.output(i), std::move(out));
}

OpNode Reader::op_of(const Node& node, OpKind kind) const {
  OpNode op;
  op.kind = kind;
  std::string path = node.name();
  if (!path.empty() && path.front() == '/') path.erase(0, 1);
  op.name = path.empty() ? std::string{} : node.name();
  if (const auto slash = path.rfind('/'); slash != std::string::npos) {
    op.scope = path.substr(0, slash);
    for (char& c : op.scope)
      if (c == '/') c = '.';
  }
  return op;
}

TensorId Reader::emit(const Node& node, OpKind kind, std::vector<TensorId> inputs, Attributes attributes) {
  OpNode op = op_of(node, kind);
  op.inputs = std::move(inputs);
  op.attributes = std::move(attributes);
  std::vector<Tensor> outputs = infer_outputs(graph, op);
  if (node.output_size() > 0) outputs.front().name = node.output(0);
  outputs.resize(1);
  return graph.op(graph.add(std::move(op), std::move(outputs))).outputs.front();
}

TensorId Reader::emit(const Node& node, OpKind kind, std::vector<TensorId> inputs, Dims shape, ElementType type,
                      Attributes attributes) {
  OpNode op = op_of(node, kind);
  op.inputs = std::move(inputs);
  op.attributes = std::move(attributes);
  std::vector<Tensor> outputs(1);
  if (node.output_size() > 0) outputs.front().name = node.output(0);
  outputs.front().shape = std::move(shape);
  outputs.front().type = type;
  const OpId id = graph.add(std::move(op), std::move(outputs));
  for (const std::string& fault : verify(graph, id)) throw GraphError(fault);
  return graph.op(id).outputs.front();
}

TensorId Reader::reshape(const Node& node, TensorId tensor, Dims shape) {
  return emit(node, OpKind::reshape, {tensor}, std::move(shape), graph.tensor(tensor).type);
}

void Reader::custom(const Node& node, const SymExpr& flops, const std::vector<Dims>& shapes) {
  ++import_.unmapped[node.domain().empty() ? node.op_type() : node.domain() + "." + node.op_type()];
  OpNode op = op_of(node, OpKind::custom);
  op.set("op", node.op_type());
  if (!(flops == SymExpr(0))) op.set("flops", flops);
  for (int i = 0; i < node.input_size(); ++i)
    if (has(node, i)) op.inputs.push_back(tensor(node, i));
  std::vector<Value> outputs;
  std::vector<Tensor> tensors;
  std::vector<int> places;
  for (int i = 0; i < node.output_size(); ++i) {
    if (!wants(node, i)) continue;
    const auto place = static_cast<std::size_t>(i);
    Value out;
    if (!op.inputs.empty()) out.type = graph.tensor(op.inputs.front()).type;
    if (place < shapes.size()) {
      out.shape = shapes[place];
    } else if (const auto said = described(node.output(i))) {
      out = *said;
    } else {
      out.shaped = false;
      out.shape = {symbol_of(node.output(i) + ".elements")};
      ++import_.unknown_shapes;
    }
    tensors.push_back({.name = node.output(i), .shape = out.shape, .type = out.type});
    outputs.push_back(std::move(out));
    places.push_back(i);
  }
  const OpId id = graph.add(std::move(op), std::move(tensors));
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    outputs[k].tensor = graph.op(id).outputs[k];
    put(node.output(places[k]), std::move(outputs[k]));
  }
}

}  // namespace orrery::models::onnx
