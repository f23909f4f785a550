#include "models/graph/op_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace orrery::models {
namespace {

constexpr std::array<std::int64_t, 11> kElementBytes{4, 2, 2, 1, 1, 4, 8, 1, 8, 4, 8};

}  // namespace

std::int64_t bytes_of(ElementType type) {
  return kElementBytes[static_cast<std::size_t>(type)];
}

hw::DType dtype_of(ElementType type) {
  switch (type) {
    case ElementType::fp16:
    case ElementType::complex32:
      return hw::DType::fp16;
    case ElementType::bf16:
      return hw::DType::bf16;
    case ElementType::fp8:
      return hw::DType::fp8;
    case ElementType::int8:
      return hw::DType::int8;
    case ElementType::fp32:
    case ElementType::int32:
    case ElementType::int64:
    case ElementType::boolean:
    case ElementType::fp64:
    case ElementType::complex64:
      break;
  }
  return hw::DType::fp32;
}

ElementType element_type(hw::DType dtype) {
  switch (dtype) {
    case hw::DType::fp16:
      return ElementType::fp16;
    case hw::DType::bf16:
      return ElementType::bf16;
    case hw::DType::fp8:
      return ElementType::fp8;
    case hw::DType::int8:
      return ElementType::int8;
    case hw::DType::fp32:
      break;
  }
  return ElementType::fp32;
}

// ---- attributes

const Attribute* OpNode::find(std::string_view attribute) const {
  for (const auto& [key, value] : attributes)
    if (key == attribute) return &value;
  return nullptr;
}

std::int64_t OpNode::integer(std::string_view attribute, std::int64_t fallback) const {
  const Attribute* value = find(attribute);
  if (value == nullptr) return fallback;
  if (const auto* number = std::get_if<double>(value)) return static_cast<std::int64_t>(*number);
  const auto* expression = std::get_if<SymExpr>(value);
  const std::optional<std::int64_t> constant = expression != nullptr ? expression->constant() : std::nullopt;
  if (!constant) throw GraphError(fmt::format("{}: attribute '{}': expected an integer", name, attribute));
  return *constant;
}

SymExpr OpNode::expr(std::string_view attribute, const SymExpr& fallback) const {
  const Attribute* value = find(attribute);
  if (value == nullptr) return fallback;
  if (const auto* expression = std::get_if<SymExpr>(value)) return *expression;
  throw GraphError(fmt::format("{}: attribute '{}': expected a size", name, attribute));
}

double OpNode::number(std::string_view attribute, double fallback) const {
  const Attribute* value = find(attribute);
  if (value == nullptr) return fallback;
  if (const auto* number = std::get_if<double>(value)) return *number;
  return static_cast<double>(integer(attribute, 0));
}

std::string_view OpNode::text(std::string_view attribute) const {
  const Attribute* value = find(attribute);
  const auto* string = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return string == nullptr ? std::string_view{} : std::string_view(*string);
}

void OpNode::set(std::string_view attribute, Attribute value) {
  const auto place = std::lower_bound(attributes.begin(), attributes.end(), attribute,
                                      [](const auto& entry, std::string_view key) { return entry.first < key; });
  if (place != attributes.end() && place->first == attribute)
    place->second = std::move(value);
  else
    attributes.emplace(place, attribute, std::move(value));
}

// ---- building

std::string OpGraph::fresh_name(std::string_view base) {
  std::string candidate(base);
  if (!by_name_.contains(candidate)) return candidate;
  int& next = next_tensor_.try_emplace(candidate, 1).first->second;  // names are never freed: those tried stay taken
  while (by_name_.contains(candidate)) candidate = fmt::format("{}.{}", base, next++);
  return candidate;
}

OpGraph::OpGraph() = default;
OpGraph::~OpGraph() = default;
OpGraph::OpGraph(const OpGraph&) = default;
OpGraph::OpGraph(OpGraph&&) noexcept = default;
OpGraph& OpGraph::operator=(const OpGraph&) = default;
OpGraph& OpGraph::operator=(OpGraph&&) noexcept = default;

TensorId OpGraph::add_tensor(Tensor tensor) {
  if (tensor.role == TensorRole::activation)
    throw GraphError(fmt::format("tensor '{}': an activation is made by an op", tensor.name));
  if (tensor.name.empty()) tensor.name = fresh_name(to_string(tensor.role));
  const auto id = static_cast<TensorId>(tensors_.size());
  if (!by_name_.try_emplace(tensor.name, id).second)
    throw GraphError(fmt::format("tensor '{}': the name is taken", tensor.name));
  tensors_.push_back(std::move(tensor));
  producers_.push_back(-1);
  consumers_.emplace_back();
  return id;
}

TensorId OpGraph::input(std::string tensor_name, std::vector<SymExpr> shape, ElementType type) {
  return add_tensor(
      {.name = std::move(tensor_name), .shape = std::move(shape), .type = type, .role = TensorRole::input});
}
TensorId OpGraph::parameter(std::string tensor_name, std::vector<SymExpr> shape, ElementType type) {
  return add_tensor(
      {.name = std::move(tensor_name), .shape = std::move(shape), .type = type, .role = TensorRole::parameter});
}
TensorId OpGraph::constant(std::string tensor_name, std::vector<SymExpr> shape, ElementType type) {
  return add_tensor(
      {.name = std::move(tensor_name), .shape = std::move(shape), .type = type, .role = TensorRole::constant});
}

OpId OpGraph::add(OpNode op) {
  for (const TensorId input : op.inputs)
    if (index(input) >= tensors_.size())
      throw GraphError(fmt::format("{} '{}': input {} is not a tensor of the graph", models::to_string(op.kind),
                                   op.name, index(input)));
  std::vector<Tensor> outputs = infer_outputs(*this, op);
  return insert(std::move(op), std::move(outputs));
}

OpId OpGraph::add(OpNode op, std::vector<Tensor> outputs) {
  for (const TensorId input : op.inputs)
    if (index(input) >= tensors_.size())
      throw GraphError(fmt::format("{} '{}': input {} is not a tensor of the graph", models::to_string(op.kind),
                                   op.name, index(input)));
  return insert(std::move(op), std::move(outputs));
}

OpId OpGraph::insert(OpNode op, std::vector<Tensor> outputs) {
  const auto id = static_cast<OpId>(op_count());
  if (op.name.empty()) op.name = fmt::format("{}_{}", models::to_string(op.kind), op_count());
  if (!op_names_.insert(op.name).second) {
    const std::string base = op.name;
    int& next = next_op_.try_emplace(base, 1).first->second;
    while (!op_names_.insert(op.name).second) op.name = fmt::format("{}.{}", base, next++);
  }
  if (op.scope.empty()) op.scope = scope_;
  if (op.phase == Phase::forward) op.phase = phase_;
  std::sort(op.attributes.begin(), op.attributes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  op.outputs.clear();
  for (Tensor& tensor : outputs) {
    tensor.role = TensorRole::activation;
    tensor.name = fresh_name(tensor.name.empty() ? op.name : tensor.name);
    const auto made = static_cast<TensorId>(tensors_.size());
    by_name_.emplace(tensor.name, made);
    tensors_.push_back(std::move(tensor));
    producers_.push_back(static_cast<std::int32_t>(index(id)));
    consumers_.emplace_back();
    op.outputs.push_back(made);
  }
  for (const TensorId input : op.inputs) {
    std::vector<OpId>& readers = consumers_[index(input)];
    if (readers.empty() || readers.back() != id) readers.push_back(id);
  }
  ops_.push_back(std::move(op));
  return id;
}

TensorId OpGraph::emit(OpKind kind, std::vector<TensorId> inputs, Attributes attributes, std::string op_name) {
  OpNode node;
  node.kind = kind;
  node.name = std::move(op_name);
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  return op(add(std::move(node))).outputs.front();
}

TensorId OpGraph::emit(OpKind kind, std::vector<TensorId> inputs, std::vector<SymExpr> shape, ElementType type,
                       Attributes attributes, std::string op_name) {
  OpNode node;
  node.kind = kind;
  node.name = std::move(op_name);
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  std::vector<Tensor> outputs(1);
  outputs.front().shape = std::move(shape);
  outputs.front().type = type;
  return op(add(std::move(node), std::move(outputs))).outputs.front();
}

void OpGraph::mark_output(TensorId tensor) {
  if (index(tensor) >= tensors_.size()) throw GraphError("an output is not a tensor of the graph");
  if (is_output(tensor)) return;
  outputs_.push_back(tensor);
  if (is_output_.size() < tensors_.size()) is_output_.resize(tensors_.size(), false);
  is_output_[index(tensor)] = true;
}

// ---- reading

std::optional<OpId> OpGraph::producer(TensorId id) const {
  const std::int32_t op = producers_[index(id)];
  return op < 0 ? std::nullopt : std::optional(static_cast<OpId>(op));
}

bool OpGraph::is_output(TensorId id) const {
  return index(id) < is_output_.size() && is_output_[index(id)];
}

std::vector<TensorId> OpGraph::with_role(TensorRole role) const {
  std::vector<TensorId> found;
  for (const TensorId id : tensors())
    if (tensor(id).role == role) found.push_back(id);
  return found;
}

std::vector<Symbol> OpGraph::symbols() const {
  std::vector<Symbol> all;
  const auto take = [&all](const SymExpr& expression) {
    if (expression.constant()) return;
    for (const Symbol symbol : expression.symbols()) all.push_back(symbol);
  };
  for (const Tensor& tensor : tensors_)
    for (const SymExpr& dim : tensor.shape) take(dim);
  for (const OpId id : ops()) {
    for (const auto& region : op(id).regions) {
      const std::vector<Symbol> inner = region->symbols();
      all.insert(all.end(), inner.begin(), inner.end());
    }
    for (const auto& [key, value] : op(id).attributes) {
      if (const auto* expression = std::get_if<SymExpr>(&value)) take(*expression);
      if (const auto* list = std::get_if<std::vector<SymExpr>>(&value))
        for (const SymExpr& expression : *list) take(expression);
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::optional<TensorId> OpGraph::find_tensor(std::string_view tensor_name) const {
  const auto found = by_name_.find(std::string(tensor_name));
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace orrery::models
