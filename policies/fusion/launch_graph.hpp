// What fusers decide on: the launches of a graph and what they hand to each other.
//
// Views move nothing, so passes look through them: a unit is an op that launches a kernel, and an edge says that one
// unit reads, perhaps through views, a tensor that another makes. Units stand in the graph's order of execution.
// contract() is the way back: groups of units become fused ops. A view between two members of a group belongs to it; if
// others read that view too they keep the original, so that no view leaves a group (a reader would see a copy where it
// saw an alias, and an expanded tensor would be read at full size).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/graph/graph_rewrite.hpp"
#include "models/graph/op_graph.hpp"
#include "models/graph/op_work.hpp"

namespace orrery::policies {

/// Unit `to` reads in `slot` what unit `from` makes as output `output`.
struct LaunchEdge {
  std::int32_t from = 0, to = 0;
  std::int32_t output = 0, slot = 0;
  models::TensorId made{}, read{};  ///< equal where no view stands between
  bool plain = true;                ///< the views between keep every element once: reshapes and transposes
};

struct LaunchGraph {
  std::vector<models::OpId> ops;               ///< of each unit
  std::vector<std::int32_t> unit_of;           ///< of each op; -1: it launches nothing
  std::vector<LaunchEdge> edges;               ///< by (to, slot)
  std::vector<std::int32_t> first_in;          ///< edges into unit u are [first_in[u], first_in[u + 1])
  std::vector<std::vector<std::int32_t>> out;  ///< indices of edges out of each unit

  std::size_t size() const { return ops.size(); }
  std::span<const LaunchEdge> in(std::size_t unit) const {
    return std::span(edges).subspan(static_cast<std::size_t>(first_in[unit]),
                                    static_cast<std::size_t>(first_in[unit + 1] - first_in[unit]));
  }
};
LaunchGraph launch_graph(const models::OpGraph& graph);

/// What became of a group of units: the name and dialect of its fused op, where they are given.
struct GroupLabel {
  std::string name, dialect;
  models::Attributes attributes;  ///< added to the fused op
  bool own_views_only = false;    ///< views of what others make stay outside
};

/// Group of each unit; -1: alone. A group needs two units or more.
using UnitGroups = std::vector<std::int32_t>;

/// The graph with each group as one fused op; `labels` by group, or none. Throws GraphError where a group is not
/// convex.
models::OpGraph contract(const models::OpGraph& graph, const LaunchGraph& launches, const UnitGroups& groups,
                         std::span<const GroupLabel> labels = {});

}  // namespace orrery::policies
