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
    take(iteration);
    longer_ps += longer;
  }
  void add(const ExpertOutcome& other) {
    take(other);
    longer_ps += other.longer_ps;
  }

 private:
  /// What both have by the same names.
  template <class Other>
  void take(const Other& other) {
    counts += other.counts;
    fetched += other.fetched;
    on_host += other.on_host;
    read += other.read;
    prefetched += other.prefetched;
    prefetched_used += other.prefetched_used;
    link_ps += other.link_ps;
    host_ps += other.host_ps;
    drive_ps += other.drive_ps;
    host_j += other.host_j;
  }
};

}  // namespace orrery::experiments
