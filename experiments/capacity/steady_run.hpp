// A serving config at its own rate, run as long as it takes to say what a longer run would.
#pragma once

#include <string>

#include "experiments/base/experiment.hpp"
#include "experiments/capacity/run_length.hpp"

namespace orrery::experiments::capacity {

struct SteadyRun {
  sim::Node summary;                   ///< of the last run, or of a design that does not fit
  LoadState load = LoadState::steady;  ///< what its requests make of it; steady where nothing arrives at a rate
  std::int64_t requests = 0;           ///< of the last run
  std::string reason;                  ///< why it is not steady
};

/// Runs the serving config `root` with seed run.seed. Where requests come all at once, or when others have ended, one
/// run says all. Throws sim::ConfigError.
SteadyRun run_steady(const sim::Node& root, const Systems& systems, std::int64_t max_requests = kMaxRequests);
/// The same once, as it is: a job to be done, not a load to be borne. Always steady.
SteadyRun run_once(const sim::Node& root, const Systems& systems);

}  // namespace orrery::experiments::capacity
