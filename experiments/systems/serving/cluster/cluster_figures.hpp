// What a run's replicas did, and what became of requests between them: members `replicas` and `cluster` of
// summary.json.
#pragma once

#include <span>
#include <vector>

#include "experiments/base/figure_table.hpp"
#include "experiments/systems/serving/cluster/cluster.hpp"

namespace orrery::experiments {

/// Member `replicas`, an object each; `span_s` is the length of the run.
sim::Node summarise(std::span<const ReplicaResult> replicas, const MachineFacts& machine, double span_s);
/// What each has.
std::vector<FigureInfo> replica_figures();

/// Member `cluster`.
sim::Node summarise(const ClusterTotals& totals, const sim::TickScale& scale);
/// What it has.
std::vector<FigureInfo> cluster_figures();

}  // namespace orrery::experiments
