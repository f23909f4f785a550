#include "policies/placement/slapo_states.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace orrery::policies::slapo {

using models::OpKind;
using models::OpNode;
using models::Pattern;
using models::SymExpr;
using models::TensorId;
using Role = models::TensorRole;

namespace {

SymExpr before(const std::vector<SymExpr>& shape, std::size_t axis) {
  return models::product(std::span(shape).first(axis));
}

std::string described(const State& s) {
  return s.partial ? "partial sums" : s.axis < 0 ? "all" : fmt::format("axis {}", s.axis);
}

}  // namespace

void StateRules::refuse(const OpNode& op, const std::string& why) const {
  throw models::GraphError(
      fmt::format("slapo: {} '{}' of \"{}\": {}", models::to_string(op.kind), op.name, op.scope, why));
}

std::vector<State> StateRules::outcome(const OpNode& op, const std::vector<State>& in) const {
  std::vector<State> out(op.outputs.size());
  if (std::all_of(in.begin(), in.end(), [](const State& s) { return s.whole(); })) return out;
  if (std::all_of(in.begin(), in.end(), [](const State& s) { return s.partial; })) {
    std::fill(out.begin(), out.end(), State{-1, true});
    return out;
  }
  switch (op.kind) {
    case OpKind::matmul:
      out[0] = product_state(op, in);
      return out;
    case OpKind::embedding:  // (table, ids)
      out[0] = in[0].axis == 0 ? State{-1, true} : State{rank_of(op.outputs[0]) - 1, false};
      return out;
    case OpKind::concat:
      out[0] = joined_state(op, in);
      return out;
    case OpKind::layer_norm_grad:
    case OpKind::rms_norm_grad:
      return norm_grad_states(op, in);
    case OpKind::cross_entropy:  // (logits, labels): each rank's part of the vocabulary, or of the rows
      if (in[0].axis < 0) refuse(op, "its labels are divided, its logits are not");
      std::fill(out.begin(), out.end(), State{-1, true});
      return out;
    case OpKind::cross_entropy_grad:  // (logits, labels, gradient of a loss that every rank has)
      out[0] = in[0];
      return out;
    case OpKind::embedding_grad:  // (dy, ids)
      if (in[0].axis != rank_of(op.inputs[0]) - 1) refuse(op, "its table is divided along the width or not at all");
      out[0].axis = 1;
      return out;
    case OpKind::attention:
    case OpKind::attention_grad:
      return head_states(op, in);
    case OpKind::optimizer_step:
      return step_states(op, in);
    case OpKind::router:
    case OpKind::router_grad:
    case OpKind::gather:
    case OpKind::grouped_matmul:
    case OpKind::grouped_matmul_grad_weight:
    case OpKind::combine:
    case OpKind::combine_grad:
      return routed_states(op, in);
    case OpKind::all_to_all:
      out[0] = in[0];
      return out;
    case OpKind::rope:
    case OpKind::rope_grad:  // (rows, angles): the angles are the same for every head
      if (in[0].axis == rank_of(op.inputs[0]) - 1) refuse(op, "it rotates pairs along the axis that is divided");
      if (in.size() > 1 && !in[1].whole()) refuse(op, "its angles are divided; leave them whole");
      out[0] = in[0];
      return out;
    case OpKind::kv_write:  // (cache, new rows …)
      for (std::size_t i = 1; i < in.size(); ++i)
        if (in[i].axis != in[0].axis)
          refuse(op, fmt::format("its rows lie as {}, the cache '{}' as {}; shard both alike", described(in[i]),
                                 graph_.tensor(op.inputs[0]).name, described(in[0])));
      out[0] = in[0];
      return out;
    case OpKind::pad: {
      const auto size = [&](models::TensorId id) {
        return graph_.tensor(id).shape[static_cast<std::size_t>(in[0].axis)];
      };
      if (in[0].axis >= 0 && !(size(op.inputs[0]) == size(op.outputs[0])))
        refuse(op, "it pads the axis that is divided");
      out[0] = in[0];
      return out;
    }
    case OpKind::reduce_sum:
    case OpKind::reduce_mean:
    case OpKind::reduce_max:
      out[0] = reduced_state(op, in[0]);
      return out;
    case OpKind::reshape:
    case OpKind::transpose:
    case OpKind::slice:
    case OpKind::expand:
      out[0] = view_state(op, in[0]);
      return out;
    default:
      break;
  }
  const Pattern pattern = models::info(op.kind).pattern;
  const bool row = op.kind == OpKind::softmax || op.kind == OpKind::softmax_grad || op.kind == OpKind::layer_norm ||
                   op.kind == OpKind::rms_norm;
  if (pattern != Pattern::elementwise && op.kind != OpKind::copy && !row)
    refuse(op, "cannot be divided among ranks; gather its operands or shard another parameter");
  const State state = aligned_state(op, in);
  if (row && state.axis == rank_of(op.outputs[0]) - 1)
    refuse(op, "its operand is divided along the rows that it reads as a whole; sync it before");
  std::fill(out.begin(), out.end(), state);
  return out;
}

State StateRules::product_state(const OpNode& op, const std::vector<State>& in) const {
  const int a_rank = rank_of(op.inputs[0]), b_rank = rank_of(op.inputs[1]), rank = rank_of(op.outputs[0]);
  const bool ta = op.integer("trans_a", 0) != 0, tb = op.integer("trans_b", 0) != 0;
  const int m = ta ? a_rank - 1 : a_rank - 2, ka = ta ? a_rank - 2 : a_rank - 1;
  const int kb = tb ? b_rank - 1 : b_rank - 2, n = tb ? b_rank - 2 : b_rank - 1;
  const State &a = in[0], &b = in[1];
  State out;
  if (a.axis == ka && b.axis == kb)
    out.partial = true;
  else if (a.whole() && b.axis == n)
    out.axis = rank - 1;
  else if (a.axis == m && b.whole())
    out.axis = rank - 2;
  else if (a.axis >= 0 && a.axis < a_rank - 2 && b.axis - b_rank == a.axis - a_rank)
    out.axis = rank - a_rank + a.axis;
  else if (a.axis >= 0 && a.axis < a_rank - 2 && b.whole() && b_rank == 2)
    out.axis = rank - a_rank + a.axis;
  else
    refuse(op, fmt::format("expected operands divided along the axis that it sums over, one of them alone along its "
                           "own, or both along a batch axis; got {} of {} and {} of {}",
                           described(a), models::shape_string(graph_.tensor(op.inputs[0])), described(b),
                           models::shape_string(graph_.tensor(op.inputs[1]))));
  if (in.size() > 2 && !in[2].whole() && out.axis != rank - 1)
    refuse(op, "its bias is divided, its result is not; shard the bias with the columns of the weight only");
  if (in.size() > 2 && in[2].whole() && out.axis == rank - 1)
    refuse(op,
           fmt::format("its columns are divided, its bias is not; shard '{}' too", graph_.tensor(op.inputs[2]).name));
  return out;
}

/// Operands aligned from the right: those of full size must be divided alike.
State StateRules::aligned_state(const OpNode& op, const std::vector<State>& in) const {
  const int rank = rank_of(op.outputs[0]);
  int from_right = 0;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (in[i].axis >= 0) from_right = rank_of(op.inputs[i]) - in[i].axis;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::vector<SymExpr>& shape = graph_.tensor(op.inputs[i]).shape;
    const int axis = rank_of(op.inputs[i]) - from_right;
    if (axis < 0 || shape[static_cast<std::size_t>(axis)].constant() == 1 || in[i].axis == axis) continue;
    refuse(op, fmt::format("'{}' is not divided as its other operands are; shard or sync it alike",
                           graph_.tensor(op.inputs[i]).name));
  }
  return {rank - from_right, false};
}

/// Parts that are all divided along one axis; joined along it, each rank has its share of every part.
State StateRules::joined_state(const OpNode& op, const std::vector<State>& in) const {
  for (const State& s : in)
    if (!(s == in[0])) refuse(op, "its parts lie differently on the ranks");
  return in[0];
}

/// (dy, x, statistics, weight): rows that each rank has some of give the gradient of the rows, and terms of those of
/// weight and bias.
std::vector<State> StateRules::norm_grad_states(const OpNode& op, const std::vector<State>& in) const {
  if (in[0].axis == rank_of(op.inputs[0]) - 1)
    refuse(op, "its operand is divided along the rows that it reads as a whole; sync it before");
  std::vector<State> out(op.outputs.size(), State{-1, true});
  out[0] = in[0];
  return out;
}

/// Heads are the third axis from the right of queries, keys and values, and the same axis of everything else.
std::vector<State> StateRules::head_states(const OpNode& op, const std::vector<State>& in) const {
  const int heads = rank_of(op.inputs[0]) - 3;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const bool broadcast = rank_of(op.inputs[i]) <= heads ||
                           graph_.tensor(op.inputs[i]).shape[static_cast<std::size_t>(heads)].constant() == 1;
    if (in[i].axis != heads && !(broadcast && in[i].whole()))
      refuse(op, fmt::format("'{}' is not divided by heads as others are", graph_.tensor(op.inputs[i]).name));
  }
  return std::vector<State>(op.outputs.size(), State{heads, false});
}

std::vector<State> StateRules::step_states(const OpNode& op, const std::vector<State>& in) const {
  std::vector<State> out(op.outputs.size());
  const models::Attribute* attribute = op.find("updates");
  const auto* updates = attribute == nullptr ? nullptr : std::get_if<std::vector<SymExpr>>(attribute);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = in[updates == nullptr ? i : static_cast<std::size_t>((*updates)[i].constant().value_or(0))];
  const auto count = static_cast<std::size_t>(op.integer("parameters", 1));
  for (std::size_t i = 0; i < count; ++i)
    if (in[i] != in[count + i])
      refuse(op, fmt::format("'{}' and its gradient lie differently on the ranks", graph_.tensor(op.inputs[i]).name));
  return out;
}

/// Each rank routes its own tokens: [batch, tokens, …] are divided along their tokens, the rows that a router picked of
/// them along those rows. Experts are whole; their gradients are added by whoever holds copies, not over these ranks.
std::vector<State> StateRules::routed_states(const OpNode& op, const std::vector<State>& in) const {
  for (std::size_t i = 0; i < in.size(); ++i) {
    const int rank = rank_of(op.inputs[i]);
    const bool by_tokens = in[i].axis == (rank == 3 ? 1 : 0) && graph_.tensor(op.inputs[i]).role == Role::activation;
    const bool experts = rank == 3 && in[i].whole() && graph_.tensor(op.inputs[i]).role == Role::parameter;
    if (!by_tokens && !experts)
      refuse(op, fmt::format("'{}' lies as {}: experts are whole, and what is routed to them is divided by tokens",
                             graph_.tensor(op.inputs[i]).name, described(in[i])));
  }
  std::vector<State> out;
  for (const TensorId output : op.outputs)
    out.push_back(op.kind == OpKind::grouped_matmul_grad_weight ? State{} : State{rank_of(output) == 3 ? 1 : 0, false});
  return out;
}

State StateRules::reduced_state(const OpNode& op, const State& in) const {
  const int rank = rank_of(op.inputs[0]);
  int shift = 0;
  const auto& axes = std::get<std::vector<SymExpr>>(*op.find("axes"));
  for (const SymExpr& entry : axes) {
    int axis = static_cast<int>(entry.constant().value_or(0));
    if (axis < 0) axis += rank;
    if (axis == in.axis) {
      if (op.kind != OpKind::reduce_sum) refuse(op, "only a sum can be taken along an axis that is divided");
      return {-1, true};
    }
    if (axis < in.axis && op.integer("keep", 0) == 0) ++shift;
  }
  return {in.axis - shift, false};
}

State StateRules::view_state(const OpNode& op, const State& in) const {
  const std::vector<SymExpr>&from = graph_.tensor(op.inputs[0]).shape, &to = graph_.tensor(op.outputs[0]).shape;
  const auto axis = static_cast<std::size_t>(in.axis);
  if (op.kind == OpKind::slice || op.kind == OpKind::expand)
    return {static_cast<int>(to.size() - from.size() + axis), false};
  if (op.kind == OpKind::transpose) {
    const models::Attribute* attribute = op.find("perm");
    const auto* perm = attribute == nullptr ? nullptr : std::get_if<std::vector<SymExpr>>(attribute);
    for (std::size_t i = 0; perm != nullptr && i < perm->size(); ++i)
      if ((*perm)[i].constant() == in.axis) return {static_cast<int>(i), false};
    refuse(op, "expected attribute 'perm' beside a divided operand");
  }
  // Tokens folded into rows: a rank has its tokens' rows, wherever among all they lie.
  if (op.kind == OpKind::reshape && axis == 1 && from.size() == 3 && to.size() == 2 && to[1] == from[2])
    return {0, false};
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (!(before(to, i) == before(from, axis)) || to[i].constant() == 1) continue;
    if (to[i].constant().value_or(0) % ranks_ != 0)
      refuse(op, fmt::format("{} ranks do not divide the {} that axis {} becomes", ranks_, to[i].to_string(), in.axis));
    return {static_cast<int>(i), false};
  }
  refuse(op, "an axis that is divided is lost in the new shape");
}

}  // namespace orrery::policies::slapo
