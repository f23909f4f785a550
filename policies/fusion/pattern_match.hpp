// Finding the matches of rules in a graph.
//
// A pattern has labels of kinds on every node, is connected and small, and a graph has few ops of the rarest kind of a
// pattern. So the search starts at every op of that kind (the anchor) and follows the pattern's edges from there: each
// further node is a neighbour of a matched one, of which there are one or two. That is linear in practice, where a
// general matcher (Boost's vf2_subgraph_mono) orders and tries the nodes of the whole graph; and the order of anchors
// makes ties plain. A match must keep everything but its escaping results to itself, and be convex together with the
// matches before it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "policies/base/graph_pass.hpp"
#include "policies/fusion/fusion_rule.hpp"
#include "policies/fusion/launch_graph.hpp"
#include "policies/fusion/merged_groups.hpp"

namespace orrery::policies {

struct RuleMatch {
  std::size_t rule = 0, pattern = 0;
  std::vector<std::int32_t> units;  ///< of each node of the pattern
  std::vector<std::string> nodes;   ///< their names
};

/// All matches of rules in order of rules, of their patterns, of anchors; no unit is in two.
std::vector<RuleMatch> find_matches(const models::OpGraph& graph, const LaunchGraph& launches,
                                    const std::vector<FusionRule>& rules);

/// The graph with every match turned into what its rule says. `keep_losers`: also where that is slower on the device.
/// Tells `matches.<rule>`, what finish_groups() tells, and `compile_s`: seconds to compile the rules' kernels, once for
/// each different one.
models::OpGraph apply_rules(const models::OpGraph& graph, const std::vector<FusionRule>& rules,
                            const PassContext& context, bool keep_losers, PassReport& report);

}  // namespace orrery::policies
