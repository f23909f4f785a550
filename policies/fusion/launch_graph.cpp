#include "policies/fusion/launch_graph.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "policies/fusion/place.hpp"

namespace orrery::policies {

using models::OpGraph;
using models::OpId;
using models::OpKind;
using models::OpNode;
using models::TensorId;

namespace {

bool is_view(const OpNode& op) {
  return models::info(op.kind).pattern == models::Pattern::view;
}

/// Copies a graph so that no view leaves a group, and says which group each op of the copy is in.
class ViewCloner {
 public:
  ViewCloner(const OpGraph& graph, models::Grouping& groups) : graph_(graph), groups_(groups), copy_(graph) {
    needed_.assign(graph.op_count(), true);
  }

  /// Nothing to do where no group reads through a view what it makes itself and others read the view too.
  bool needed() {
    bool any = false;
    for (std::size_t i = graph_.op_count(); i-- > 0;) {
      const OpNode& op = graph_.op(static_cast<OpId>(i));
      if (!is_view(op) || groups_[i] >= 0) continue;
      bool redirected = false, kept = graph_.is_output(op.outputs.front());
      for (const OpId reader : graph_.consumers(op.outputs.front())) {
        const bool clone = groups_[index(reader)] >= 0 && made_by(op.outputs.front()) == groups_[index(reader)];
        const bool gone = is_view(graph_.op(reader)) && !needed_[index(reader)];
        redirected |= clone || gone;
        kept |= !clone && !gone;
      }
      needed_[i] = kept || !redirected;
      any |= redirected;
    }
    return any;
  }

  OpGraph run() {
    models::Grouping now;
    for (const OpId id : graph_.ops()) {
      const std::int32_t group = groups_[index(id)];
      if (!needed_[index(id)]) continue;
      std::vector<TensorId> inputs;
      for (const TensorId input : graph_.op(id).inputs)
        inputs.push_back(group >= 0 && made_by(input) == group ? inside(input, group, now) : copy_.at(input));
      OpNode node = graph_.op(id);
      node.inputs = std::move(inputs);
      add(id, std::move(node), true);
      now.push_back(group);
    }
    groups_ = std::move(now);
    return copy_.finish();
  }

 private:
  /// Group that makes the memory a tensor lies in; -2 for none.
  std::int32_t made_by(TensorId tensor) const {
    const std::optional<OpId> maker = graph_.producer(models::storage_of(graph_, tensor));
    return maker && groups_[index(*maker)] >= 0 ? groups_[index(*maker)] : -2;
  }

  /// The tensor as `group` sees it: views that do not belong to the group are made anew for it.
  TensorId inside(TensorId tensor, std::int32_t group, models::Grouping& now) {
    const std::optional<OpId> maker = graph_.producer(tensor);
    if (!maker || !is_view(graph_.op(*maker)) || groups_[index(*maker)] == group) return copy_.at(tensor);
    const auto found = clones_.find({group, tensor});
    if (found != clones_.end()) return found->second;
    OpNode node = graph_.op(*maker);
    node.inputs = {inside(node.inputs.front(), group, now)};
    node.name += ".inside";
    const TensorId made = add(*maker, std::move(node), false);
    now.push_back(group);
    clones_.emplace(std::pair(group, tensor), made);
    return made;
  }

  TensorId add(OpId old, OpNode node, bool stands_for) {
    std::vector<models::Tensor> outputs;
    for (const TensorId output : graph_.op(old).outputs) outputs.push_back(graph_.tensor(output));
    if (!stands_for) outputs.front().name += ".inside";  // the original may come later and keeps its name
    node.outputs.clear();
    const OpId added = copy_.to().add(std::move(node), std::move(outputs));
    const std::vector<TensorId>& made = copy_.to().op(added).outputs;
    if (stands_for)
      for (std::size_t i = 0; i < made.size(); ++i) copy_.put(graph_.op(old).outputs[i], made[i]);
    return made.empty() ? TensorId{} : made.front();
  }

  const OpGraph& graph_;
  models::Grouping& groups_;
  models::GraphCopy copy_;
  std::vector<bool> needed_;
  std::map<std::pair<std::int32_t, TensorId>, TensorId> clones_;
};

/// Views that only one group reads belong to it.
void absorb_views(const OpGraph& graph, models::Grouping& groups, std::span<const GroupLabel> labels) {
  for (std::size_t i = graph.op_count(); i-- > 0;) {
    const OpNode& op = graph.op(static_cast<OpId>(i));
    if (!is_view(op)) continue;
    const std::span<const OpId> readers = graph.consumers(op.outputs.front());
    if (readers.empty() || graph.is_output(op.outputs.front())) continue;
    const std::int32_t group = groups[index(readers.front())];
    if (group < 0 || std::ranges::any_of(readers, [&](OpId reader) { return groups[index(reader)] != group; }))
      continue;
    if (at(group) < labels.size() && labels[at(group)].own_views_only) {
      const std::optional<OpId> maker = graph.producer(models::storage_of(graph, op.outputs.front()));
      if (!maker || groups[index(*maker)] != group) continue;
    }
    groups[i] = group;
  }
}

void put_labels(OpGraph& graph, const std::vector<std::pair<std::string, std::int32_t>>& first_outputs,
                std::span<const GroupLabel> labels) {
  for (const auto& [tensor, group] : first_outputs) {
    const std::optional<TensorId> found = graph.find_tensor(tensor);
    const std::optional<OpId> maker = found ? graph.producer(*found) : std::nullopt;
    if (!maker || at(group) >= labels.size()) continue;
    const GroupLabel& label = labels[at(group)];
    OpNode& op = graph.annotate(*maker);
    if (!label.name.empty()) op.name = label.name + "_" + std::to_string(index(*maker));
    if (!label.dialect.empty()) op.dialect = label.dialect;
    for (const auto& [name, value] : label.attributes) op.set(name, value);
  }
}

}  // namespace

LaunchGraph launch_graph(const OpGraph& graph) {
  LaunchGraph all;
  all.unit_of.assign(graph.op_count(), -1);
  for (const OpId id : graph.ops()) {
    const OpNode& op = graph.op(id);
    if (is_view(op)) continue;
    const auto unit = static_cast<std::int32_t>(all.ops.size());
    all.unit_of[index(id)] = unit;
    all.ops.push_back(id);
    all.out.emplace_back();
    all.first_in.push_back(static_cast<std::int32_t>(all.edges.size()));
    for (std::size_t slot = 0; slot < op.inputs.size(); ++slot) {
      LaunchEdge edge;
      edge.read = edge.made = op.inputs[slot];
      std::optional<OpId> maker = graph.producer(edge.made);
      for (; maker && is_view(graph.op(*maker)); maker = graph.producer(edge.made)) {
        const OpKind kind = graph.op(*maker).kind;
        edge.plain &= kind == OpKind::reshape || kind == OpKind::transpose;
        edge.made = graph.op(*maker).inputs.front();
      }
      if (!maker) continue;
      edge.from = all.unit_of[index(*maker)];
      edge.to = unit;
      edge.slot = static_cast<std::int32_t>(slot);
      const std::vector<TensorId>& made = graph.op(*maker).outputs;
      edge.output = static_cast<std::int32_t>(std::ranges::find(made, edge.made) - made.begin());
      all.out[at(edge.from)].push_back(static_cast<std::int32_t>(all.edges.size()));
      all.edges.push_back(edge);
    }
  }
  all.first_in.push_back(static_cast<std::int32_t>(all.edges.size()));
  return all;
}

OpGraph contract(const OpGraph& graph, const LaunchGraph& launches, const UnitGroups& groups,
                 std::span<const GroupLabel> labels) {
  std::map<std::int32_t, int> sizes;
  for (const std::int32_t group : groups)
    if (group >= 0) ++sizes[group];
  models::Grouping op_groups(graph.op_count(), -1);
  std::vector<std::pair<std::string, std::int32_t>> first_outputs;
  std::vector<bool> named;
  for (std::size_t unit = 0; unit < launches.size(); ++unit) {
    if (groups[unit] < 0 || sizes[groups[unit]] < 2) continue;
    op_groups[index(launches.ops[unit])] = groups[unit];
    for (const TensorId output : graph.op(launches.ops[unit]).outputs)
      first_outputs.emplace_back(graph.tensor(output).name, groups[unit]);
  }
  if (first_outputs.empty()) return graph;
  absorb_views(graph, op_groups, labels);
  ViewCloner cloner(graph, op_groups);
  OpGraph fused;
  if (cloner.needed()) {
    const OpGraph separated = cloner.run();
    fused = models::fuse_groups(separated, op_groups);
  } else {
    fused = models::fuse_groups(graph, op_groups);
  }
  if (!labels.empty()) put_labels(fused, first_outputs, labels);
  return fused;
}

}  // namespace orrery::policies
