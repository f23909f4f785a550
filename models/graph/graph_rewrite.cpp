#include "models/graph/graph_rewrite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <queue>

namespace orrery::models {
namespace {

/// Ops in units that run as a whole: a group, or an op alone; numbered by their first op.
std::vector<std::int32_t> units_of(const OpGraph& graph, const Grouping& groups) {
  std::vector<std::int32_t> unit(graph.op_count());
  std::map<std::int32_t, std::int32_t> first;
  for (const OpId id : graph.ops()) {
    const std::size_t i = index(id);
    const std::int32_t group = i < groups.size() ? groups[i] : -1;
    unit[i] =
        group < 0 ? static_cast<std::int32_t>(i) : first.try_emplace(group, static_cast<std::int32_t>(i)).first->second;
  }
  return unit;
}

/// Units in an order of execution that keeps to the order of their first ops where it can; fewer than all on a cycle.
std::vector<std::int32_t> ordered_units(const OpGraph& graph, const std::vector<std::int32_t>& unit) {
  std::vector<std::vector<std::int32_t>> next(unit.size());
  std::vector<std::int32_t> waits(unit.size(), 0);
  for (const OpId id : graph.ops()) {
    const std::int32_t to = unit[index(id)];
    for (const TensorId input : graph.op(id).inputs) {
      const std::optional<OpId> maker = graph.producer(input);
      if (!maker || unit[index(*maker)] == to) continue;
      next[static_cast<std::size_t>(unit[index(*maker)])].push_back(to);
      ++waits[static_cast<std::size_t>(to)];
    }
  }
  std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < unit.size(); ++i)
    if (unit[i] == static_cast<std::int32_t>(i) && waits[i] == 0) ready.push(static_cast<std::int32_t>(i));
  std::vector<std::int32_t> order;
  while (!ready.empty()) {
    const std::int32_t now = ready.top();
    ready.pop();
    order.push_back(now);
    for (const std::int32_t to : next[static_cast<std::size_t>(now)])
      if (--waits[static_cast<std::size_t>(to)] == 0) ready.push(to);
  }
  return order;
}

std::vector<Tensor> output_tensors(const OpGraph& graph, const OpNode& op) {
  std::vector<Tensor> tensors;
  for (const TensorId output : op.outputs) tensors.push_back(graph.tensor(output));
  return tensors;
}

/// Adds the ops of `region` to `to`; `map` holds what its inputs are there and receives everything else.
void inline_region(const OpGraph& region, std::vector<std::optional<TensorId>>& map, OpGraph& to, const OpNode& as) {
  for (const OpId id : region.ops()) {
    OpNode node = region.op(id);
    std::vector<Tensor> outputs = output_tensors(region, node);
    for (TensorId& input : node.inputs) input = *map[index(input)];
    if (node.scope.empty()) node.scope = as.scope;
    const std::vector<TensorId> old = std::exchange(node.outputs, {});
    const OpId added = to.add(std::move(node), std::move(outputs));
    for (std::size_t i = 0; i < old.size(); ++i) map[index(old[i])] = to.op(added).outputs[i];
  }
}

/// Kinds and the name of the first op: the same wherever in a graph, or in which part of it, the region stands.
std::string fused_name(const OpGraph& region) {
  std::string name = "fused";
  int listed = 0;
  for (const OpId id : region.ops()) {
    if (info(region.op(id).kind).pattern == Pattern::view) continue;
    if (++listed <= 3) name += fmt::format("_{}", to_string(region.op(id).kind));
  }
  return fmt::format("{}.{}", name, region.op(static_cast<OpId>(0)).name);
}

/// Class under which a group's time is booked: that of its largest kind, products before passes.
hw::OpClass group_class(const OpGraph& graph, std::span<const OpId> members) {
  for (const OpId id : members)
    if (info(graph.op(id).kind).pattern == Pattern::matrix) return graph.op(id).op_class;
  return graph.op(members.front()).op_class;
}

OpNode fused_node(const OpGraph& graph, std::span<const OpId> members, Subgraph&& part) {
  OpNode node;
  node.kind = OpKind::fused;
  node.scope = graph.op(members.front()).scope;
  node.phase = graph.op(members.front()).phase;
  node.dialect = graph.op(members.front()).dialect;
  node.target = graph.op(members.front()).target;
  node.op_class = group_class(graph, members);
  node.regions.push_back(std::make_shared<const OpGraph>(unfuse(part.graph)));
  node.name = fused_name(*node.regions.back());
  return node;
}

}  // namespace

GraphCopy::GraphCopy(const OpGraph& from) : from_(from), map_(from.tensor_count()) {
  to_.name = from.name;
  to_.facts = from.facts;
  for (const TensorId id : from.tensors())
    if (from.tensor(id).role != TensorRole::activation) map_[index(id)] = to_.add_tensor(from.tensor(id));
}

TensorId GraphCopy::at(TensorId old) const {
  if (!map_[index(old)])
    throw GraphError(fmt::format("tensor '{}' has no counterpart in the new graph", from_.tensor(old).name));
  return *map_[index(old)];
}

std::vector<TensorId> GraphCopy::at(std::span<const TensorId> old) const {
  std::vector<TensorId> now;
  for (const TensorId id : old) now.push_back(at(id));
  return now;
}

OpNode GraphCopy::node(OpId op) const {
  OpNode copy = from_.op(op);
  copy.inputs = at(copy.inputs);
  copy.outputs.clear();
  return copy;
}

OpId GraphCopy::copy(OpId op) {
  return replace(op, node(op));
}

OpId GraphCopy::replace(OpId op, OpNode node) {
  const OpId added = to_.add(std::move(node), output_tensors(from_, from_.op(op)));
  for (std::size_t i = 0; i < from_.op(op).outputs.size(); ++i) put(from_.op(op).outputs[i], to_.op(added).outputs[i]);
  return added;
}

OpId GraphCopy::add_again(OpId op, OpNode node) {
  std::vector<Tensor> outputs = output_tensors(from_, from_.op(op));
  for (Tensor& output : outputs) {
    output.name += ".again";
    output.saved = false;
  }
  node.name += ".again";
  return to_.add(std::move(node), std::move(outputs));
}

OpGraph GraphCopy::finish() {
  for (const TensorId output : from_.outputs()) to_.mark_output(at(output));
  return std::move(to_);
}

bool is_convex(const OpGraph& graph, const Grouping& groups) {
  const std::vector<std::int32_t> unit = units_of(graph, groups);
  std::size_t units = 0;
  for (std::size_t i = 0; i < unit.size(); ++i) units += unit[i] == static_cast<std::int32_t>(i) ? 1 : 0;
  return ordered_units(graph, unit).size() == units;
}

OpGraph fuse_groups(const OpGraph& graph, const Grouping& groups) {
  const std::vector<std::int32_t> unit = units_of(graph, groups);
  std::vector<std::vector<OpId>> members(unit.size());
  std::size_t units = 0;
  for (const OpId id : graph.ops()) {
    std::vector<OpId>& all = members[static_cast<std::size_t>(unit[index(id)])];
    units += all.empty() ? 1 : 0;
    all.push_back(id);
  }
  const std::vector<std::int32_t> order = ordered_units(graph, unit);
  if (order.size() != units)
    throw GraphError("fusing these groups would make a cycle: a path leaves one and comes back");
  GraphCopy copy(graph);
  for (const std::int32_t first : order) {
    const std::vector<OpId>& ops = members[static_cast<std::size_t>(first)];
    if (ops.size() == 1) {
      copy.copy(ops.front());
      continue;
    }
    Subgraph part = extract(graph, ops, "fused");
    const std::vector<TensorId> inputs = part.inputs, outputs = part.outputs;
    OpNode node = fused_node(graph, ops, std::move(part));
    node.inputs = copy.at(inputs);
    std::vector<Tensor> tensors;
    for (const TensorId output : outputs) tensors.push_back(graph.tensor(output));
    const OpId added = copy.to().add(std::move(node), std::move(tensors));
    for (std::size_t i = 0; i < outputs.size(); ++i) copy.put(outputs[i], copy.to().op(added).outputs[i]);
  }
  return copy.finish();
}

OpGraph unfuse(const OpGraph& graph) {
  if (std::ranges::none_of(graph.ops(), [&](OpId id) { return graph.op(id).kind == OpKind::fused; })) return graph;
  GraphCopy copy(graph);
  for (const OpId id : graph.ops()) {
    const OpNode& op = graph.op(id);
    if (op.kind != OpKind::fused) {
      copy.copy(id);
      continue;
    }
    const OpGraph& region = *op.regions.front();
    std::vector<std::optional<TensorId>> map(region.tensor_count());
    const std::vector<TensorId> inputs = region.with_role(TensorRole::input);
    for (std::size_t i = 0; i < inputs.size(); ++i) map[index(inputs[i])] = copy.at(op.inputs[i]);
    inline_region(region, map, copy.to(), op);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) copy.put(op.outputs[i], *map[index(region.outputs()[i])]);
  }
  return copy.finish();
}

Subgraph extract(const OpGraph& graph, std::span<const OpId> ops, const std::string& name) {
  Subgraph part;
  part.graph.name = name;
  part.graph.facts = graph.facts;
  std::vector<std::optional<TensorId>> map(graph.tensor_count());
  std::vector<bool> inside(graph.op_count(), false);
  for (const OpId id : ops) inside[index(id)] = true;
  for (const OpId id : ops)
    for (const TensorId input : graph.op(id).inputs) {
      const std::optional<OpId> maker = graph.producer(input);
      if (map[index(input)] || (maker && inside[index(*maker)])) continue;
      Tensor tensor = graph.tensor(input);
      tensor.role = TensorRole::input;
      tensor.saved = false;
      map[index(input)] = part.graph.add_tensor(std::move(tensor));
      part.inputs.push_back(input);
    }
  for (const OpId id : ops) {
    OpNode node = graph.op(id);
    std::vector<Tensor> outputs = output_tensors(graph, node);
    for (TensorId& input : node.inputs) input = *map[index(input)];
    node.outputs.clear();
    const OpId added = part.graph.add(std::move(node), std::move(outputs));
    for (std::size_t i = 0; i < graph.op(id).outputs.size(); ++i)
      map[index(graph.op(id).outputs[i])] = part.graph.op(added).outputs[i];
  }
  for (const OpId id : ops)
    for (const TensorId output : graph.op(id).outputs) {
      const std::span<const OpId> readers = graph.consumers(output);
      if (!graph.is_output(output) &&
          std::all_of(readers.begin(), readers.end(), [&](OpId reader) { return inside[index(reader)]; }) &&
          !readers.empty())
        continue;
      if (readers.empty() && !graph.is_output(output)) continue;  // made, and never read
      part.outputs.push_back(output);
      part.graph.mark_output(*map[index(output)]);
    }
  return part;
}

}  // namespace orrery::models
