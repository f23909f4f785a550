// Gradients of products: each forward product gives two backward products of the same work.
//
//   y = A B:      dA = dy B^T, dB = A^T dy; a weight of two dimensions folds the batch into rows
//   attention:    one kernel for q, k and v from the saved output and row sums (probabilities are computed again)
//   convolution:  one kernel for the input and one for the weight
//   S x (sparse): dx = S^T dy; the gradient of the values of S samples dy x^T where S has entries
//   transforms:   linear, so the transform the other way
#include <algorithm>

#include "models/autodiff/rules.hpp"

namespace orrery::models::detail {
namespace {

Attributes transposed(bool a, bool b) {
  Attributes all;
  if (a) all.emplace_back("trans_a", SymExpr(1));
  if (b) all.emplace_back("trans_b", SymExpr(1));
  return all;
}

/// Axes before the last `kept` ones.
std::vector<SymExpr> leading_axes(std::size_t rank, std::size_t kept = 1) {
  std::vector<SymExpr> axes;
  for (std::size_t i = 0; i + kept < rank; ++i) axes.emplace_back(static_cast<std::int64_t>(i));
  return axes;
}

/// [.., m, k] as [.. * m, k].
TensorId as_rows(Adjoint& a, TensorId id) {
  const std::vector<SymExpr> dims = a.shape(id);
  if (dims.size() == 2) return id;
  return a.reshape(id, {product(std::span(dims).first(dims.size() - 1)), dims.back()});
}

void matmul(Adjoint& a) {
  const bool ta = a.op().integer("trans_a", 0) != 0, tb = a.op().integer("trans_b", 0) != 0;
  const TensorId x = a.input(0), w = a.input(1), dy = a.dy();
  if (a.needs(0))
    a.give(0, ta ? a.emit(OpKind::matmul, {w, dy}, transposed(tb, true))
                 : a.emit(OpKind::matmul, {dy, w}, transposed(false, !tb)));
  if (a.needs(1)) {
    const bool fold = a.shape(w).size() == 2 && a.shape(x).size() > 2 && !ta;
    const TensorId rows = fold ? as_rows(a, x) : x, drows = fold ? as_rows(a, dy) : dy;
    a.give(1, tb ? a.emit(OpKind::matmul, {drows, rows}, transposed(true, ta))
                 : a.emit(OpKind::matmul, {rows, drows}, transposed(!ta, false)));
  }
  if (a.needs(2)) a.give(2, a.emit(OpKind::reduce_sum, {dy}, {{"axes", leading_axes(a.shape(dy).size())}}));
}

/// Rows times the matrix of their group, and with the attribute `bias` what is added in each; further inputs say which
/// group.
void grouped_matmul(Adjoint& a) {
  if (a.op().integer("indexed", 0) != 0) a.fail("no gradient for rows that are picked inside of a product");
  const TensorId dy = a.dy();
  const bool turned_weights = a.op().integer("trans_b", 0) != 0;
  std::vector<TensorId> of_rows{dy, a.input(1)}, of_weights{a.input(0), dy};
  if (turned_weights) std::swap(of_weights[0], of_weights[1]);
  const bool bias = a.op().integer("bias", 0) != 0;
  for (std::size_t i = bias ? 3 : 2; i < a.op().inputs.size(); ++i) {
    of_rows.push_back(a.input(i));
    of_weights.push_back(a.input(i));
  }
  Attributes attributes;
  if (const Attribute* active = a.op().find("active_groups")) attributes.emplace_back("active_groups", *active);
  if (const Attribute* library = a.op().find("library")) attributes.emplace_back("library", *library);
  Attributes turned = attributes;
  turned.emplace_back("trans_b", SymExpr(turned_weights ? 0 : 1));
  if (a.needs(0)) a.give(0, a.emit(OpKind::grouped_matmul, of_rows, a.shape(a.input(0)), std::move(turned)));
  if (bias && a.needs(2)) {  // summed by the product that has the gradient's rows at hand
    attributes.emplace_back("summed", SymExpr(turned_weights ? 0 : 1));
    const auto given = a.emit_for(OpKind::grouped_matmul_grad_weight, of_weights, {1, 2}, std::move(attributes));
    if (a.needs(1)) a.give(1, given[0]);
    a.give(2, given[1]);
  } else if (a.needs(1)) {
    a.give(1, a.emit(OpKind::grouped_matmul_grad_weight, of_weights, a.shape(a.input(1)), std::move(attributes)));
  }
}

/// (q, k, v, further) -> (o, row sums). With the attribute `sinks` the first further input is a logit a head that takes
/// part in the softmax and has no value.
void attention(Adjoint& a) {
  const bool sinks = a.op().integer("sinks", 0) != 0 && a.needs(3);
  for (std::size_t slot = sinks ? 4 : 3; slot < a.op().inputs.size(); ++slot)
    if (a.needs(slot)) a.fail("no gradient for its masks and biases; write attention as products and a softmax");
  std::vector<TensorId> inputs{a.input(0), a.input(1), a.input(2), a.output(0), a.output(1), a.dy()};
  for (std::size_t slot = 3; slot < a.op().inputs.size(); ++slot) inputs.push_back(a.input(slot));
  std::vector<std::size_t> like{0, 1, 2};
  if (sinks) like.push_back(3);
  const std::vector<TensorId> given = a.emit_for(OpKind::attention_grad, inputs, like, a.op().attributes);
  for (const std::size_t slot : like) a.give(slot, given[slot]);
}

void conv2d(Adjoint& a) {
  const TensorId dy = a.dy();
  if (a.needs(0))
    a.give(0, a.emit(OpKind::conv2d_grad_input, {dy, a.input(1)}, a.shape(a.input(0)), a.op().attributes));
  if (a.needs(1))
    a.give(1, a.emit(OpKind::conv2d_grad_weight, {a.input(0), dy}, a.shape(a.input(1)), a.op().attributes));
  if (a.needs(2)) a.give(2, a.emit(OpKind::reduce_sum, {dy}, {{"axes", std::vector<SymExpr>{0, 2, 3}}}));
}

/// The sizes of a sparse operand, seen from the other side.
Attributes turned_over(const OpNode& op) {
  Attributes all = op.attributes;
  for (auto& [key, value] : all) key = key == "rows" ? "columns" : key == "columns" ? "rows" : key;
  const auto trans = std::find_if(all.begin(), all.end(), [](const auto& entry) { return entry.first == "trans"; });
  if (trans == all.end())
    all.emplace_back("trans", SymExpr(1));
  else
    all.erase(trans);
  return all;
}

/// Inputs with the two first replaced.
std::vector<TensorId> with_first(const Adjoint& a, std::vector<TensorId> first, std::size_t from) {
  for (std::size_t slot = from; slot < a.op().inputs.size(); ++slot) first.push_back(a.input(slot));
  return first;
}

/// (values, features, structure ..).
void spmm(Adjoint& a) {
  const TensorId dy = a.dy();
  if (a.needs(1))
    a.give(1, a.emit(OpKind::spmm, with_first(a, {a.input(0), dy}, 2), a.shape(a.input(1)), turned_over(a.op())));
  if (a.needs(0))
    a.give(0, a.emit(OpKind::sddmm, {a.input(0), dy, a.input(1)}, a.shape(a.input(0)), a.op().attributes));
}

/// (pattern, a, b): one value an entry, the product of its row of a and its row of b.
void sddmm(Adjoint& a) {
  if (a.op().inputs.size() != 3) a.fail("expected a pattern and two operands to differentiate it");
  const TensorId dy = a.dy();
  if (a.needs(0)) a.fail("no gradient for the values of the pattern");
  if (a.needs(1)) a.give(1, a.emit(OpKind::spmm, {dy, a.input(2)}, a.shape(a.input(1)), a.op().attributes));
  if (a.needs(2)) a.give(2, a.emit(OpKind::spmm, {dy, a.input(1)}, a.shape(a.input(2)), turned_over(a.op())));
}

void fft(Adjoint& a) {
  Attributes attributes = a.op().attributes;
  const std::string_view form = a.op().text("form");
  const bool inverse = a.op().integer("inverse", 0) != 0;
  std::erase_if(attributes, [](const auto& entry) { return entry.first == "form" || entry.first == "inverse"; });
  attributes.emplace_back("form", std::string(form == "complex"   ? "complex"
                                              : form == "to_real" ? "to_complex"
                                                                  : "to_real"));
  if (!inverse) attributes.emplace_back("inverse", SymExpr(1));
  a.give(0, a.emit_for(OpKind::fft, {a.dy()}, {0}, std::move(attributes)).front());
}

}  // namespace

GradientRule product_gradient(OpKind kind) {
  switch (kind) {
    case OpKind::matmul:
      return matmul;
    case OpKind::grouped_matmul:
      return grouped_matmul;
    case OpKind::attention:
      return attention;
    case OpKind::conv2d:
      return conv2d;
    case OpKind::spmm:
      return spmm;
    case OpKind::sddmm:
      return sddmm;
    case OpKind::fft:
      return fft;
    default:
      return nullptr;
  }
}

}  // namespace orrery::models::detail
