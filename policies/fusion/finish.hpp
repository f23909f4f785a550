// The end that all fusion passes share: contract the groups, take apart those that lose, say what was gained.
#pragma once

#include <span>

#include "policies/base/graph_pass.hpp"
#include "policies/fusion/launch_graph.hpp"

namespace orrery::policies {

/// The graph with the groups as fused ops. With a device, a group whose kernel takes longer than its members' kernels
/// and launches is left alone. Tells `groups`, `rejected`, `launches_before`, `launches_after`, `bytes_before` and
/// `bytes_after` (for the typical sizes). `labels` by group, or none.
models::OpGraph finish_groups(const models::OpGraph& graph, const LaunchGraph& launches, UnitGroups groups,
                              const PassContext& context, PassReport& report, std::span<const GroupLabel> labels = {});

/// Tells `launches_before` … `bytes_after` of a pass that made `after` from `before`.
void tell_gains(const models::OpGraph& before, const models::OpGraph& after, const PassContext& context,
                PassReport& report);

}  // namespace orrery::policies
