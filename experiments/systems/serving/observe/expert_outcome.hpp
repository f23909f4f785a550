// Experts that devices do not hold all of: member `expert_memory` of summary.json (docs/explain/expert-offload.md).
#pragma once

#include <cstdint>

#include "experiments/base/figure_table.hpp"
#include "experiments/experts/expert_layers.hpp"

namespace orrery::experiments {

struct ExpertOutcome {
  policies::ExpertCounts counts;
  std::int64_t fetched = 0, on_host = 0, read = 0, prefetched = 0, prefetched_used = 0;
  __int128 link_ps = 0, host_ps = 0, drive_ps = 0;
  __int128 longer_ps = 0;  ///< than with all experts on the devices
  double host_j = 0;

  /// Books an iteration, by so much longer.
  void book(const ExpertTotals& iteration, std::int64_t longer) {
    counts += iteration.counts;
    fetched += iteration.fetched;
    on_host += iteration.on_host;
    read += iteration.read;
    prefetched += iteration.prefetched;
    prefetched_used += iteration.prefetched_used;
    link_ps += iteration.link_ps;
    host_ps += iteration.host_ps;
    drive_ps += iteration.drive_ps;
    longer_ps += longer;
    host_j += iteration.host_j;
  }
  void add(const ExpertOutcome& other) {
    counts += other.counts;
    fetched += other.fetched;
    on_host += other.on_host;
    read += other.read;
    prefetched += other.prefetched;
    prefetched_used += other.prefetched_used;
    link_ps += other.link_ps;
    host_ps += other.host_ps;
    drive_ps += other.drive_ps;
    longer_ps += other.longer_ps;
    host_j += other.host_j;
  }
};

}  // namespace orrery::experiments
