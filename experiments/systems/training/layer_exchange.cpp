#include "experiments/systems/training/layer_exchange.hpp"

#include <algorithm>

#include "models/graph/op_kinds.hpp"

namespace orrery::experiments::training {

using models::OpGraph;
using models::OpId;
using models::OpKind;
using models::Pattern;
using models::TensorId;

hw::GroupCost attention_exchange(const TrainingMachine& machine, const LayerShare& share, std::int64_t query_bytes,
                                 std::int64_t key_value_bytes, double attention_s, bool backward) {
  if (share.context < 2) return {};
  const hw::RankGroup group = rank_group(machine, share.context, share.tensor);
  const auto ranks = static_cast<double>(share.context);
  const auto queries = static_cast<double>(query_bytes), pairs = static_cast<double>(key_value_bytes);
  hw::GroupCost sum;
  const auto add = [&](hw::LibraryCall call, double bytes) {
    const hw::GroupCost cost = collective(machine, call, group, bytes);
    sum.time_s += cost.time_s;
    sum.energy_j += cost.energy_j;
  };
  switch (share.exchange) {
    case ContextExchange::ring: {
      // A block of keys and values (and, backward, of their gradients) a step, while the block before is worked on.
      const hw::GroupCost step = slowest_message(machine, share.tensor, share.context, (backward ? 2 : 1) * pairs);
      const double block_s = attention_s / ranks, step_s = step.time_s / machine.in_situ.overlapped;
      const double waits = overlap(machine, group).together_s({block_s, step_s, 0, 0}) - block_s;
      return {(ranks - 1) * waits, (ranks - 1) * step.energy_j};
    }
    case ContextExchange::all_gather:
      add(hw::LibraryCall::all_gather, ranks * pairs);
      if (backward) add(hw::LibraryCall::reduce_scatter, ranks * pairs);
      return sum;
    case ContextExchange::all_to_all:
      // Queries, keys and values for heads, the result back; backward the same of gradients.
      add(hw::LibraryCall::all_to_all, queries + pairs);
      add(hw::LibraryCall::all_to_all, queries);
      return sum;
  }
  return sum;
}

double exposed_beside(const Overlap& overlap, double collective_s, double product_s, std::int64_t ranks) {
  const double hidden = 1 - 1 / static_cast<double>(ranks);
  if (!overlap.model) return collective_s - hidden * std::min(collective_s, product_s);
  const double both = overlap.together_s({hidden * product_s, hidden * collective_s, 0, 0});
  return (1 - hidden) * collective_s + both - hidden * product_s;
}

namespace {

bool is_product(const OpGraph& graph, OpId id) {
  const models::OpNode& op = graph.op(id);
  if (op.kind != OpKind::fused) return op.kind == OpKind::matmul;
  const OpGraph& region = *op.regions.front();
  return std::ranges::any_of(region.ops(), [&](OpId inner) { return region.op(inner).kind == OpKind::matmul; });
}

/// Products that read a tensor, its casts or views of it.
void add_readers(const OpGraph& graph, TensorId tensor, std::vector<OpId>& products) {
  for (const OpId reader : graph.consumers(tensor)) {
    const models::OpNode& op = graph.op(reader);
    if (is_product(graph, reader)) products.push_back(reader);
    if (op.kind == OpKind::cast || models::info(op.kind).pattern == Pattern::view)
      add_readers(graph, op.outputs.front(), products);
  }
}

}  // namespace

std::vector<OpId> products_beside(const OpGraph& graph, OpId collective) {
  std::vector<OpId> products;
  if (graph.op(collective).kind == OpKind::all_gather) {
    add_readers(graph, graph.op(collective).outputs.front(), products);
  } else if (graph.op(collective).kind == OpKind::reduce_scatter) {
    const auto maker = graph.producer(graph.op(collective).inputs.front());
    if (maker && is_product(graph, *maker)) products.push_back(*maker);
  }
  return products;
}

}  // namespace orrery::experiments::training
