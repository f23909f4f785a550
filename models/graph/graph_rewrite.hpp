// Building the next graph from one: what every pass does.
//
// GraphCopy walks a graph in its order and copies, replaces or drops ops one by one. fuse_groups() makes one fused op
// of each group of ops. Both keep the order of execution, names, scopes and annotations, and give deterministic
// results.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/graph/op_graph.hpp"

namespace orrery::models {

/// A new graph in the making, and where the old one's tensors went.
class GraphCopy {
 public:
  /// Starts with all tensors that exist before the run.
  explicit GraphCopy(const OpGraph& from);

  const OpGraph& from() const { return from_; }
  OpGraph& to() { return to_; }
  /// Where a tensor of the old graph is now. Throws GraphError if it is not made yet (or was dropped).
  TensorId at(TensorId old) const;
  bool has(TensorId old) const { return map_[index(old)].has_value(); }
  /// Says that `now` stands for `old` from here on.
  void put(TensorId old, TensorId now) { map_[index(old)] = now; }
  std::vector<TensorId> at(std::span<const TensorId> old) const;
  /// Copies an op; its outputs stand for the old one's. Returns the new op.
  OpId copy(OpId op);
  /// Adds `node` in the place of an op: its outputs stand for that one's.
  OpId replace(OpId op, OpNode node);
  /// Adds `node` beside the copy of an op, as what runs it again: its outputs are like that one's, stand for none of
  /// them, and are not kept between passes.
  OpId add_again(OpId op, OpNode node);
  /// A copy of the op's node with inputs of the new graph and no outputs, to be changed and added.
  OpNode node(OpId op) const;
  /// Marks the outputs of the old graph and gives the new one away. Throws GraphError if one is missing.
  OpGraph finish();

 private:
  const OpGraph& from_;
  OpGraph to_;
  std::vector<std::optional<TensorId>> map_;
};

/// Group of each op, by index: ops of one non-negative number become one fused op; -1 stays alone.
using Grouping = std::vector<std::int32_t>;

/// The graph with every group of two or more ops contracted. Fused ops nest no further: a fused op inside a group is
/// dissolved into it. Throws GraphError where contracting a group would make a cycle (a path leaves it and comes back).
OpGraph fuse_groups(const OpGraph& graph, const Grouping& groups);
/// True if no path leaves a group and comes back, through other groups too.
bool is_convex(const OpGraph& graph, const Grouping& groups);
/// Fused ops dissolved into what they were made of.
OpGraph unfuse(const OpGraph& graph);

/// The part of a graph that `ops` (in order) are: inputs are what they read from outside, outputs what others read of
/// them or the graph gives. `inputs` and `outputs` name those tensors of `graph`.
struct Subgraph {
  OpGraph graph;
  std::vector<TensorId> inputs, outputs;
};
Subgraph extract(const OpGraph& graph, std::span<const OpId> ops, const std::string& name);

}  // namespace orrery::models
