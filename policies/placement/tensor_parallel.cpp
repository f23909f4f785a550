#include "policies/placement/tensor_parallel.hpp"

#include <fmt/format.h>

#include <vector>

#include "policies/placement/slapo_schedule.hpp"

namespace orrery::policies {
namespace {

using models::OpGraph;
using models::OpKind;
using models::OpNode;
using models::TensorId;
using models::TensorRole;

bool is_parameter(const OpGraph& graph, TensorId id) {
  return graph.tensor(id).role == TensorRole::parameter;
}

/// The axis of a weight [n, k] (turned: [k, n]) that counts its columns, or its rows.
int weight_axis(const OpNode& product, bool columns) {
  const bool turned = product.integer("trans_b", 0) == 0;
  return columns == turned ? 1 : 0;
}

/// What a forward op's class says of its parameters.
void add_divided(const OpGraph& graph, const OpNode& op, const TensorParallel& how,
                 std::vector<slapo::DividedTensor>& out) {
  using hw::OpClass;
  if (op.kind == OpKind::embedding && op.op_class == OpClass::embedding) {
    // A table of positions is small and stays whole: it is no wider than the sequence.
    if (how.vocabulary && is_parameter(graph, op.inputs[0]) && graph.tensor(op.inputs[1]).name == "input_ids")
      out.push_back({op.inputs[0], 0});
    return;
  }
  // Sinks, [1, heads, 1, 1]: of attention in one kernel, or spread over the scores that they are joined with.
  const bool one_kernel = op.kind == OpKind::attention && op.integer("sinks", 0) != 0;
  if (one_kernel || op.kind == OpKind::expand) {
    const TensorId sinks = op.inputs[one_kernel ? 3 : 0];
    if (is_parameter(graph, sinks) && graph.tensor(sinks).shape.size() == 4) out.push_back({sinks, 1});
    return;
  }
  if (op.kind != OpKind::matmul || !is_parameter(graph, op.inputs[1]) || op.integer("undivided", 0) != 0) return;
  const bool columns = op.op_class == OpClass::qkv_proj || op.op_class == OpClass::ffn_up ||
                       (how.vocabulary && op.op_class == OpClass::lm_head);
  const bool rows = op.op_class == OpClass::out_proj || op.op_class == OpClass::ffn_down;
  if (!columns && !rows) return;
  out.push_back({op.inputs[1], weight_axis(op, columns)});
  if (columns && op.inputs.size() > 2 && is_parameter(graph, op.inputs[2])) out.push_back({op.inputs[2], 0});
}

std::vector<slapo::DividedTensor> divided_parameters(const OpGraph& graph, const TensorParallel& how) {
  std::vector<slapo::DividedTensor> all;
  for (const models::OpId id : graph.ops())
    if (graph.op(id).phase == models::Phase::forward) add_divided(graph, graph.op(id), how, all);
  return all;
}

/// Heads of keys that an op of attention reads, [batch, heads, tokens, width]; nothing for another op.
std::optional<std::int64_t> heads_of_keys(const OpGraph& graph, const OpNode& op) {
  const bool product = op.kind == OpKind::matmul && op.op_class == hw::OpClass::attention_prefill;
  if (op.kind != OpKind::attention && !product) return std::nullopt;
  const auto& keys = graph.tensor(op.inputs[1]).shape;
  if (keys.size() != 4) return std::nullopt;
  return keys[1].constant();
}

}  // namespace

std::optional<std::string> tensor_parallel_obstacle(const OpGraph& graph, const TensorParallel& how) {
  for (const slapo::DividedTensor& p : divided_parameters(graph, how)) {
    const models::Tensor& tensor = graph.tensor(p.id);
    const models::SymExpr& size = tensor.shape[static_cast<std::size_t>(p.axis)];
    if (size.constant().value_or(0) % how.ranks != 0)
      return fmt::format("{} ranks of tensor parallelism do not divide the {} of {}", how.ranks, size.to_string(),
                         tensor.name);
  }
  for (const models::OpId id : graph.ops())
    if (const auto heads = heads_of_keys(graph, graph.op(id)); heads && *heads % how.ranks != 0)
      return fmt::format("{} ranks of tensor parallelism do not divide {} heads of keys", how.ranks, *heads);
  return std::nullopt;
}

OpGraph tensor_parallel(const OpGraph& graph, const TensorParallel& how) {
  if (how.ranks == 1) return graph;
  return slapo::shard(graph, divided_parameters(graph, how), {}, how.ranks,
                      {.sync_all = true, .sequence = how.sequence});
}

}  // namespace orrery::policies
