// Gradients of reductions and of ops that normalise rows or pick by them.
//
// Normalisations are one backward kernel for the input and the affine parameters, from the input and the statistics of
// the forward pass. A sum's gradient is a view (every element gets the same); a mean's is scaled while it is small.
#include <algorithm>

#include "models/autodiff/rules.hpp"

namespace orrery::models::detail {
namespace {

std::vector<std::size_t> reduced_axes(const Adjoint& a) {
  const auto rank = static_cast<std::int64_t>(a.shape(a.input(0)).size());
  const Attribute* attribute = a.op().find("axes");
  const auto* axes = attribute == nullptr ? nullptr : std::get_if<std::vector<SymExpr>>(attribute);
  std::vector<std::size_t> places;
  if (axes == nullptr) return places;
  for (const SymExpr& axis : *axes) {
    const std::int64_t place = axis.constant().value_or(0);
    places.push_back(static_cast<std::size_t>(place < 0 ? place + rank : place));
  }
  return places;
}

/// A tensor of the reduced shape, seen in the shape of what was reduced.
TensorId spread(Adjoint& a, TensorId id) {
  std::vector<SymExpr> kept = a.shape(a.input(0));
  for (const std::size_t axis : reduced_axes(a)) kept.at(axis) = 1;
  return a.emit(OpKind::expand, {a.reshape(id, kept)}, a.shape(a.input(0)));
}

void reduce_sum(Adjoint& a) {
  a.give(0, spread(a, a.dy()));
}

void reduce_mean(Adjoint& a) {
  SymExpr count = 1;
  for (const std::size_t axis : reduced_axes(a)) count *= a.shape(a.input(0)).at(axis);
  a.give(0, spread(a, a.emit(OpKind::scale, {a.dy()}, {{"divisor", count}})));
}

void reduce_max(Adjoint& a) {
  const TensorId largest =
      a.emit(OpKind::compare, {a.input(0), spread(a, a.output())}, {{"relation", std::string("equal")}});
  a.give(0, a.emit(OpKind::where, {largest, spread(a, a.dy()), a.zero(a.tensor(a.dy()).type)}));
}

void softmax(Adjoint& a) {
  if (a.needs(1)) a.fail("no gradient for its mask; add the bias before it");
  a.give(0, a.emit(OpKind::softmax_grad, {a.dy(), a.output()}, a.op().attributes));
}

/// One kernel for the input and those affine parameters that there are; statistics stand behind the output.
void normalisation(Adjoint& a, OpKind gradient, std::size_t statistics, std::size_t parameters) {
  std::vector<TensorId> inputs{a.dy(), a.input(0)};
  for (std::size_t i = 0; i < statistics; ++i) inputs.push_back(a.output(1 + i));
  std::vector<std::size_t> like{0};
  for (std::size_t slot = 1; slot < a.op().inputs.size() && slot <= parameters; ++slot) like.push_back(slot);
  if (a.op().inputs.size() > 1) inputs.push_back(a.input(1));
  const std::vector<TensorId> given = a.emit_for(gradient, inputs, like, a.op().attributes);
  for (std::size_t i = 0; i < like.size(); ++i) a.give(like[i], given[i]);
}

void layer_norm(Adjoint& a) {
  normalisation(a, OpKind::layer_norm_grad, 2, 2);
}
void rms_norm(Adjoint& a) {
  normalisation(a, OpKind::rms_norm_grad, 1, 1);
}
void batch_norm(Adjoint& a) {
  normalisation(a, OpKind::batch_norm_grad, 2, 2);
}
void group_norm(Adjoint& a) {
  normalisation(a, OpKind::group_norm_grad, 2, 2);
}

void cross_entropy(Adjoint& a) {
  a.give(0,
         a.emit(OpKind::cross_entropy_grad, {a.input(0), a.input(1), a.dy()}, a.shape(a.input(0)), a.op().attributes));
}

void max_pool(Adjoint& a) {
  a.give(0, a.emit_for(OpKind::max_pool2d_grad, {a.dy(), a.input(0), a.output()}, {0}, a.op().attributes).front());
}
void avg_pool(Adjoint& a) {
  a.give(0, a.emit_for(OpKind::avg_pool2d_grad, {a.dy()}, {0}, a.op().attributes).front());
}

Tensor statistic(std::string name, std::vector<SymExpr> shape) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.shape = std::move(shape);
  tensor.type = ElementType::fp32;
  return tensor;
}

std::vector<SymExpr> rows_of(const OpGraph& graph, TensorId id) {
  std::vector<SymExpr> shape = graph.tensor(id).shape;
  if (!shape.empty()) shape.pop_back();
  return shape;
}

}  // namespace

std::vector<Tensor> training_outputs(const OpGraph& graph, const OpNode& op) {
  if (op.outputs.size() > 1) return {};
  const TensorId x = op.inputs.empty() ? TensorId{} : op.inputs.front();
  const auto named = [&](const char* what) { return op.name + "." + what; };
  switch (op.kind) {
    case OpKind::attention:
      return {statistic(named("log_sum"), rows_of(graph, x))};
    case OpKind::layer_norm:
      return {statistic(named("mean"), rows_of(graph, x)), statistic(named("rstd"), rows_of(graph, x))};
    case OpKind::rms_norm:
      return {statistic(named("rstd"), rows_of(graph, x))};
    case OpKind::batch_norm:
    case OpKind::group_norm: {
      const std::vector<SymExpr>& shape = graph.tensor(x).shape;
      if (shape.size() < 2) return {};
      const std::vector<SymExpr> per = op.kind == OpKind::batch_norm
                                           ? std::vector<SymExpr>{shape[1]}
                                           : std::vector<SymExpr>{shape[0], op.expr("groups", 32)};
      return {statistic(named("mean"), per), statistic(named("rstd"), per)};
    }
    case OpKind::dropout: {
      Tensor mask = graph.tensor(op.outputs.front());
      mask.name = named("mask");
      mask.type = ElementType::boolean;
      return {mask};
    }
    default:
      return {};
  }
}

GradientRule row_gradient(OpKind kind) {
  switch (kind) {
    case OpKind::reduce_sum:
      return reduce_sum;
    case OpKind::reduce_mean:
      return reduce_mean;
    case OpKind::reduce_max:
      return reduce_max;
    case OpKind::softmax:
      return softmax;
    case OpKind::layer_norm:
      return layer_norm;
    case OpKind::rms_norm:
      return rms_norm;
    case OpKind::batch_norm:
      return batch_norm;
    case OpKind::group_norm:
      return group_norm;
    case OpKind::cross_entropy:
      return cross_entropy;
    case OpKind::max_pool2d:
      return max_pool;
    case OpKind::avg_pool2d:
      return avg_pool;
    default:
      return nullptr;
  }
}

}  // namespace orrery::models::detail
