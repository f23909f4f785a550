#include "policies/fusion/loops.hpp"

#include <algorithm>
#include <map>
#include <string>

namespace orrery::policies {

using models::OpKind;
using models::SymExpr;
using models::TensorId;

LoopRole loop_role(const models::OpNode& op) {
  if (op.outputs.empty() || op.find("scratch") != nullptr) return LoopRole::none;  // several kernels in one
  if (op.kind == OpKind::cross_entropy && op.integer("compiled", 0) != 0)
    return LoopRole::row;  // with its logits' cast
  switch (op.kind) {
    // Gradients of norms write sums over all rows beside their rows; losses and samplers end a model; windows overlap.
    case OpKind::layer_norm_grad:
    case OpKind::rms_norm_grad:
    case OpKind::batch_norm:
    case OpKind::batch_norm_grad:
    case OpKind::group_norm:
    case OpKind::group_norm_grad:
    case OpKind::cross_entropy:
    case OpKind::sampling:
    case OpKind::router:
    case OpKind::max_pool2d:
    case OpKind::avg_pool2d:
      return LoopRole::none;
    case OpKind::matmul:
    case OpKind::grouped_matmul:
    case OpKind::conv2d:
      return LoopRole::product;
    default:
      break;
  }
  switch (models::info(op.kind).pattern) {
    case models::Pattern::elementwise:
    case models::Pattern::injective:
      return LoopRole::pointwise;
    case models::Pattern::reduction:
      return LoopRole::row;
    default:
      return LoopRole::none;
  }
}

Domains::Domains(const models::OpGraph& graph, const models::Bindings* bindings)
    : graph_(graph), bindings_(bindings), known_(graph.tensor_count(), -1) {}

std::int32_t Domains::of(TensorId tensor) {
  std::int32_t& known = known_[index(tensor)];
  if (known >= 0) return known;
  SymExpr count = graph_.tensor(tensor).elements();
  count = bindings_ != nullptr ? SymExpr(count.eval(*bindings_)) : graph_.facts.canonical(count);
  const auto place = std::lower_bound(sorted_.begin(), sorted_.end(), count,
                                      [](const auto& entry, const SymExpr& key) { return entry.first < key; });
  if (place != sorted_.end() && place->first == count) return known = place->second;
  known = static_cast<std::int32_t>(sorted_.size());
  sorted_.emplace(place, std::move(count), known);
  return known;
}

namespace {

/// What rows a row unit takes: the last dimension, or which axes of which shape.
std::string row_key(const models::OpGraph& graph, const models::OpNode& op) {
  const std::vector<SymExpr>& shape = graph.tensor(op.inputs.front()).shape;
  const models::Attribute* attribute = op.find("axes");
  const auto* axes = attribute == nullptr ? nullptr : std::get_if<std::vector<SymExpr>>(attribute);
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto is_last = [&](const SymExpr& axis) { return axis == SymExpr(-1) || axis == SymExpr(rank - 1); };
  if (rank == 0) return "last";
  if (axes == nullptr || (axes->size() == 1 && is_last(axes->front()))) return "last " + shape.back().to_string();
  std::string key = "axes";
  for (const SymExpr& axis : *axes) key += ' ' + axis.to_string();
  for (const SymExpr& dim : shape) key += ", " + dim.to_string();
  return key;
}

}  // namespace

std::vector<Loop> loops_of(const models::OpGraph& graph, const LaunchGraph& launches, Domains& domains) {
  std::vector<Loop> loops(launches.size());
  std::map<std::string, std::int32_t> rows;
  for (std::size_t unit = 0; unit < launches.size(); ++unit) {
    const models::OpNode& op = graph.op(launches.ops[unit]);
    Loop& loop = loops[unit];
    loop.role = loop_role(op);
    if (loop.role == LoopRole::none) continue;
    loop.made = domains.of(op.outputs.front());
    loop.domain = loop.role == LoopRole::row && !op.inputs.empty() ? domains.of(op.inputs.front()) : loop.made;
    if (loop.role == LoopRole::row && !op.inputs.empty())
      loop.rows = rows.try_emplace(row_key(graph, op), static_cast<std::int32_t>(rows.size())).first->second;
  }
  return loops;
}

bool same_place(const models::OpNode& a, const models::OpNode& b) {
  return a.phase == b.phase && a.target == b.target && a.dialect == b.dialect;
}

std::vector<std::int64_t> tensor_bytes(const models::OpGraph& graph, const models::Bindings& bindings) {
  std::vector<std::int64_t> bytes(graph.tensor_count(), 0);
  for (const TensorId id : graph.tensors()) {
    std::int64_t count = bytes_of(graph.tensor(id).type);
    for (const SymExpr& dim : graph.tensor(id).shape) count *= dim.constant() ? *dim.constant() : dim.eval(bindings);
    bytes[index(id)] = count;
  }
  return bytes;
}

}  // namespace orrery::policies
