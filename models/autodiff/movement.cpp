// Gradients of movement: what was picked is put back, what was put together is taken apart.
//
// Parts (slices) of one tensor are left to models/autodiff/autodiff.cpp, which concatenates their gradients where they
// cover the whole and pads them where they do not. Rows picked by index are added into zeros.
#include <algorithm>

#include "models/autodiff/rules.hpp"

namespace orrery::models::detail {
namespace {

void reshape(Adjoint& a) {
  const Tensor &in = a.tensor(a.input(0)), &out = a.tensor(a.output());
  // Complex numbers seen as their halves, or the other way: the gradient is seen back.
  if (is_complex(in.type) != is_complex(out.type)) return a.give(0, a.emit_for(OpKind::reshape, {a.dy()}, {0}).front());
  a.give(0, a.reshape(a.dy(), a.shape(a.input(0))));
}

void transpose(Adjoint& a) {
  Attributes back;
  if (const Attribute* attribute = a.op().find("perm"))
    if (const auto* perm = std::get_if<std::vector<SymExpr>>(attribute)) {
      std::vector<SymExpr> inverse(perm->size());
      for (std::size_t i = 0; i < perm->size(); ++i)
        inverse.at(static_cast<std::size_t>((*perm)[i].constant().value_or(0))) = static_cast<std::int64_t>(i);
      back.emplace_back("perm", std::move(inverse));
    }
  a.give(0, a.emit(OpKind::transpose, {a.dy()}, a.shape(a.input(0)), std::move(back)));
}

void slice(Adjoint& a) {
  a.give_part(0, a.dy());
}

void expand(Adjoint& a) {
  a.give(0, a.dy());  // give() sums what was repeated
}

void concat(Adjoint& a) {
  const std::vector<SymExpr> whole = a.shape(a.output());
  std::optional<std::size_t> axis;
  if (a.op().find("axis") != nullptr) axis = static_cast<std::size_t>(a.op().integer("axis", 0));
  for (std::size_t slot = 0; !axis && slot < a.op().inputs.size(); ++slot)
    axis = differing_axis(a.graph(), whole, a.shape(a.input(slot)));
  if (!axis && a.op().inputs.size() == 1) return a.give(0, a.dy());
  if (!axis || *axis >= whole.size()) a.fail("cannot tell along which axis; expected attribute 'axis'");
  SymExpr start = 0;
  for (std::size_t slot = 0; slot < a.op().inputs.size(); ++slot) {
    const std::vector<SymExpr> part = a.shape(a.input(slot));
    if (a.needs(slot))
      a.give(slot, a.emit(OpKind::slice, {a.dy()}, part,
                          {{"axis", SymExpr(static_cast<std::int64_t>(*axis))}, {"start", start}}));
    start += part.at(*axis);
  }
}

/// The place before and after the part, for each axis; as many as `pad` says, none for those it leaves out.
void pad(Adjoint& a) {
  Attributes attributes;
  if (const Attribute* before = a.op().find("before")) attributes.emplace_back("start", *before);
  a.give(0, a.emit(OpKind::slice, {a.dy()}, a.shape(a.input(0)), std::move(attributes)));
}

/// What is copied as it is has its copy's gradient; rows that are put into another order go back into their own.
void copy(Adjoint& a) {
  if (a.op().text("backward") == "copy") return a.give(0, a.emit(OpKind::copy, {a.dy()}));
  if (a.op().text("backward") != "all_reduce") return a.give(0, a.dy());
  a.give(0, a.emit_for(OpKind::all_reduce, {a.dy()}, {0}, a.op().attributes).front());
}

/// (source, indices). Where a router made the indices, a token's rows come back as combine() has them.
void gather(Adjoint& a) {
  const TensorId source = a.input(0);
  if (const auto maker = a.graph().producer(a.input(1)); maker && a.graph().op(*maker).kind == OpKind::router) {
    const SymExpr chosen = a.shape(a.input(1)).back();
    return a.give(0, a.emit(OpKind::combine, {a.dy(), a.input(1)}, a.shape(source), {{"k", chosen}}));
  }
  const TensorId target = a.zeros(a.shape(source), a.tensor(source).type);
  a.give(0, a.emit_for(OpKind::scatter_add, {target, a.dy(), a.input(1)}, {0}, a.op().attributes).front());
}

/// (target, updates, indices).
void scatter_add(Adjoint& a) {
  if (a.op().inputs.size() != 3) a.fail("expected target, updates and indices to differentiate it");
  a.give(0, a.dy());
  if (a.needs(1)) a.give(1, a.emit(OpKind::gather, {a.dy(), a.input(2)}, a.shape(a.input(1)), a.op().attributes));
}

/// (table, ids).
void embedding(Adjoint& a) {
  a.give(0, a.emit(OpKind::embedding_grad, {a.dy(), a.input(1)}, a.shape(a.input(0)), a.op().attributes));
}

void upsample(Adjoint& a) {
  a.give(0, a.emit_for(OpKind::upsample_grad, {a.dy()}, {0}, a.op().attributes).front());
}

void rope(Adjoint& a) {
  std::vector<TensorId> inputs = a.op().inputs;
  inputs.front() = a.dy();
  a.give(0, a.emit(OpKind::rope_grad, std::move(inputs), a.op().attributes));
}

/// (scores, further) -> (weights, experts, further): the weights of the chosen experts.
void router(Adjoint& a) {
  if (a.op().outputs.size() < 2) a.fail("expected weights and indices as outputs to differentiate it");
  a.give(
      0,
      a.emit_for(OpKind::router_grad, {a.dy(), a.output(0), a.output(1), a.input(0)}, {0}, a.op().attributes).front());
}

/// (rows of experts, weights, further): rows weighted and summed a token.
void combine(Adjoint& a) {
  std::vector<TensorId> inputs{a.dy()};
  inputs.insert(inputs.end(), a.op().inputs.begin(), a.op().inputs.end());
  std::vector<std::size_t> like;
  for (const std::size_t slot : {std::size_t{0}, std::size_t{1}})
    if (a.needs(slot)) like.push_back(slot);
  const std::vector<TensorId> given = a.emit_for(OpKind::combine_grad, std::move(inputs), like, a.op().attributes);
  for (std::size_t i = 0; i < like.size(); ++i) a.give(like[i], given[i]);
}

/// The sum of what all devices hold is used by all of them alike, and so is its gradient.
void all_reduce(Adjoint& a) {
  a.give(0, a.dy());
}

template <OpKind Gradient>
void back_across(Adjoint& a) {
  a.give(0, a.emit_for(Gradient, {a.dy()}, {0}, a.op().attributes).front());
}

void kv_write(Adjoint& a) {
  a.fail("no gradient through a key-value cache; build the graph without one");
}

GradientRule communication_gradient(OpKind kind) {
  switch (kind) {
    case OpKind::all_reduce:
      return all_reduce;
    case OpKind::all_gather:
      return back_across<OpKind::reduce_scatter>;
    case OpKind::reduce_scatter:
      return back_across<OpKind::all_gather>;
    case OpKind::all_to_all:
      return back_across<OpKind::all_to_all>;
    case OpKind::to_host:
      return back_across<OpKind::to_device>;
    case OpKind::to_device:
      return back_across<OpKind::to_host>;
    default:
      return nullptr;
  }
}

}  // namespace

GradientRule movement_gradient(OpKind kind) {
  switch (kind) {
    case OpKind::reshape:
      return reshape;
    case OpKind::transpose:
      return transpose;
    case OpKind::slice:
      return slice;
    case OpKind::expand:
      return expand;
    case OpKind::concat:
      return concat;
    case OpKind::pad:
      return pad;
    case OpKind::copy:
      return copy;
    case OpKind::gather:
      return gather;
    case OpKind::scatter_add:
      return scatter_add;
    case OpKind::embedding:
      return embedding;
    case OpKind::upsample:
      return upsample;
    case OpKind::rope:
      return rope;
    case OpKind::router:
      return router;
    case OpKind::combine:
      return combine;
    case OpKind::kv_write:
      return kv_write;
    default:
      return communication_gradient(kind);
  }
}

}  // namespace orrery::models::detail
