// What gradient rules build with.
#include <fmt/format.h>

#include <algorithm>

#include "models/autodiff/rules.hpp"

namespace orrery::models::detail {

Adjoint::Adjoint(OpGraph& graph, OpId op, std::vector<std::optional<TensorId>> gradients, std::vector<bool> needed)
    : graph_(graph), op_(graph.op(op)), gradients_(std::move(gradients)), needed_(std::move(needed)) {}

OpNode Adjoint::backward_node(OpKind kind, std::vector<TensorId> inputs, Attributes attributes) {
  OpNode node;
  node.kind = kind;
  node.name = fmt::format("{}.grad{}", op_.name, emitted_++);
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  node.scope = op_.scope;
  node.phase = Phase::backward;
  node.dialect = op_.dialect;
  node.target = op_.target;
  node.op_class = op_.op_class;
  return node;
}

TensorId Adjoint::emit(OpKind kind, std::vector<TensorId> inputs, Attributes attributes) {
  return graph_.op(graph_.add(backward_node(kind, std::move(inputs), std::move(attributes)))).outputs.front();
}

TensorId Adjoint::emit(OpKind kind, std::vector<TensorId> inputs, std::vector<SymExpr> shape, Attributes attributes) {
  Tensor out;
  out.type = graph_.tensor(inputs.front()).type;
  out.shape = std::move(shape);
  return graph_.op(graph_.add(backward_node(kind, std::move(inputs), std::move(attributes)), {out})).outputs.front();
}

std::vector<TensorId> Adjoint::emit_for(OpKind kind, std::vector<TensorId> inputs, const std::vector<std::size_t>& like,
                                        Attributes attributes) {
  std::vector<Tensor> outputs;
  for (const std::size_t slot : like) {
    Tensor out;
    out.shape = shape(input(slot));
    out.type = tensor(input(slot)).type;
    outputs.push_back(std::move(out));
  }
  return graph_.op(graph_.add(backward_node(kind, std::move(inputs), std::move(attributes)), std::move(outputs)))
      .outputs;
}

TensorId Adjoint::dy(std::size_t place) {
  std::optional<TensorId>& gradient = gradients_.at(place);
  if (!gradient) gradient = zeros(shape(output(place)), tensor(output(place)).type);
  return *gradient;
}

TensorId Adjoint::reshape(TensorId id, std::vector<SymExpr> shape_now) {
  return shape(id) == shape_now ? id : emit(OpKind::reshape, {id}, std::move(shape_now));
}

TensorId Adjoint::zero(ElementType type) {
  const std::string name = fmt::format("zero.{}", to_string(type));
  if (const std::optional<TensorId> found = graph_.find_tensor(name)) return *found;
  return graph_.constant(name, {}, type);
}

TensorId Adjoint::zeros(std::vector<SymExpr> shape_now, ElementType type) {
  const TensorId view = emit(OpKind::expand, {zero(type)}, std::move(shape_now));
  return emit(OpKind::copy, {view});
}

TensorId Adjoint::reduce_to(TensorId gradient, std::vector<SymExpr> target) {
  const std::vector<SymExpr> from = shape(gradient);
  if (from.size() < target.size()) return reshape(gradient, std::move(target));
  const std::size_t extra = from.size() - target.size();
  std::vector<SymExpr> axes;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool repeated = i < extra || (target[i - extra].constant() == 1 && from[i].constant() != 1);
    if (repeated) axes.emplace_back(static_cast<std::int64_t>(i));
  }
  if (axes.empty()) return gradient;
  const bool leading = axes.size() == extra;  // nothing to keep: the rest is the target's shape
  const TensorId sum = emit(OpKind::reduce_sum, {gradient}, {{"axes", axes}, {"keep", SymExpr(leading ? 0 : 1)}});
  return leading || extra == 0 ? sum : reshape(sum, std::move(target));
}

void Adjoint::give(std::size_t slot, TensorId gradient) {
  if (!needs(slot)) return;
  const ElementType type = tensor(input(slot)).type;
  gradient = reduce_to(gradient, shape(input(slot)));
  if (tensor(gradient).type != type)
    gradient = emit(OpKind::cast, {gradient}, Attributes{{"to", std::string(to_string(type))}});
  given_.push_back({slot, gradient, false});
}

void Adjoint::give_part(std::size_t slot, TensorId gradient) {
  if (needs(slot)) given_.push_back({slot, gradient, true});
}

void Adjoint::fail(const std::string& why) const {
  throw GraphError(fmt::format("{} '{}': {}", to_string(op_.kind), op_.name, why));
}

std::optional<std::size_t> differing_axis(const OpGraph& graph, const std::vector<SymExpr>& a,
                                          const std::vector<SymExpr>& b) {
  if (a.size() != b.size()) return std::nullopt;
  std::optional<std::size_t> axis;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || provably_equal(a[i], b[i], graph.facts)) continue;
    if (axis) return std::nullopt;
    axis = i;
  }
  return axis;
}

bool is_differentiable(ElementType type) {
  switch (type) {
    case ElementType::fp32:
    case ElementType::fp16:
    case ElementType::bf16:
    case ElementType::fp64:
    case ElementType::complex32:
    case ElementType::complex64:
      return true;
    case ElementType::fp8:
    case ElementType::int8:
    case ElementType::int32:
    case ElementType::int64:
    case ElementType::boolean:
      break;
  }
  return false;
}

bool ends_gradients(OpKind kind) {
  return kind == OpKind::compare || kind == OpKind::sampling;
}

GradientRule gradient_rule(OpKind kind) {
  if (const GradientRule rule = product_gradient(kind)) return rule;
  if (const GradientRule rule = elementwise_gradient(kind)) return rule;
  if (const GradientRule rule = row_gradient(kind)) return rule;
  return movement_gradient(kind);
}

}  // namespace orrery::models::detail
