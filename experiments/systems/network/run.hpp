// One simulation of a network config, from the first message to the last.
#pragma once

#include <functional>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/network/metrics.hpp"

namespace orrery::experiments::network {

/// Runs until all jobs and flows are done, until `run.until`, or until nothing moves any more. `observer` may be null,
/// `progress` empty; `replication` is added to the seed. Throws std::overflow_error for a time past the reach of the
/// tick and std::length_error for more messages under way than the engine holds.
NetworkResult run_network(const NetworkConfig& config, RunObserver* observer,
                          const std::function<void(const Progress&)>& progress = {}, std::int64_t replication = 0);

}  // namespace orrery::experiments::network
