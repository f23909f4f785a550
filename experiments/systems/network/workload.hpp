// Reads the workload of a network experiment against its topology: jobs, flows, traffic and events with names and
// numbers resolved.
#pragma once

#include "experiments/systems/network/config.hpp"
#include "hw/network/topology_query.hpp"

namespace orrery::experiments::network {

/// What a workload is read against.
struct WorkloadContext {
  const sim::Node& node;  ///< the section
  const hw::Topology& topology;
  const hw::TopologyNames& names;
  hw::Routing& routing;
  const hw::CollectiveRegistry& collectives;
  bool alone = true;  ///< whether nobody but the workload uses the network
};

/// Reports policy blocks of jobs that are faulty; needs no topology.
void check_algorithms(const sim::Node& workload, const WorkloadParams& params,
                      const hw::CollectiveRegistry& collectives, sim::Faults& faults);

/// Fills jobs, flows, traffic and events of `config`. `params` gets the jobs' names and the algorithms' defaults, so
/// that it can be written as resolved.
void read_workload(const WorkloadContext& context, WorkloadParams& params, NetworkConfig& config, sim::Faults& faults);

}  // namespace orrery::experiments::network
