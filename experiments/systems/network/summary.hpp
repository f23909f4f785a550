// summary.json of a network run.
#pragma once

#include <vector>

#include "experiments/systems/network/metrics.hpp"
#include "sim/base/document.hpp"

namespace orrery::experiments::network {

/// Bus bandwidth over algorithm bandwidth, as nccl-tests defines it (doc/PERFORMANCE.md): all_reduce 2(n-1)/n,
/// all_gather, reduce_scatter and all_to_all (n-1)/n, broadcast and send_recv 1.
double bus_factor(hw::CollectiveKind kind, std::int64_t ranks);

/// The links that carried the largest share of what they could, the busiest first; ties by number. Links that carried
/// nothing are left out.
std::vector<hw::LinkIndex> busiest_links(const NetworkConfig& config, const NetworkResult& result, std::size_t count);

/// summary.json of one run.
sim::Node summarise(const NetworkConfig& config, const NetworkResult& result);
/// Its member `replications`.
sim::Node summarise_replications(const std::vector<sim::Node>& summaries);

}  // namespace orrery::experiments::network
