// Scaling: how many replicas should be up. Asked at even intervals, and when a request finds none up.
//
// The cluster keeps the number between its bounds, chooses whom to start (the lowest numbers) and whom to stop (the
// idle, then those with the fewest requests; a replica that is stopped finishes what it has), and lets starts take
// their time (experiments/systems/serving/cluster/cold_start.hpp).
//
// Contract: the view is valid during the call only; equal views and history give equal answers; O(replicas).
#pragma once

#include <cstdint>
#include <span>

#include "policies/routing/routing.hpp"
#include "sim/base/registry.hpp"

namespace orrery::policies {

struct ScalingView {
  sim::Time now;
  std::int64_t ps_per_tick = 1;
  std::span<const ReplicaFacts> replicas;  ///< that are up and take requests
  std::span<const sim::Time> idle_since;   ///< of each of these; kNever: it has requests
  std::int64_t starting = 0;               ///< on their way up
  std::int64_t parked = 0;                 ///< requests that wait because none is up (of decode replicas: that found
                                           ///< none up since the last decision)
  double busy = 0;                         ///< share of the last interval in which those up had requests, mean
  std::int64_t least = 1, most = 1;        ///< bounds

  std::int64_t up() const { return std::ssize(replicas) + starting; }
};

class Scaling {
 public:
  virtual ~Scaling() = default;
  /// Replicas that should be up or on their way up; the cluster keeps it within the bounds.
  virtual std::int64_t wanted(const ScalingView& view) = 0;
  /// Whether it reads `load` of the replicas. O(queue) a replica and call.
  virtual bool reads_reports() const { return false; }
};

using ScalingRegistry = sim::Registry<Scaling>;

/// Adds every policy of this folder (register.cpp: one line a policy).
void register_scalings(ScalingRegistry& registry);

}  // namespace orrery::policies
