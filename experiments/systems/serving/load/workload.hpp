// The workload of a config as a stream of requests.
#pragma once

#include <memory>

#include "experiments/systems/serving/config/config.hpp"
#include "experiments/systems/serving/load/load.hpp"
#include "traces/trace.hpp"

namespace orrery::experiments {

/// Opens the trace or the generator a config names, re-timed where it asks for that; what is random draws from `seed`.
/// Throws sim::ConfigError.
std::unique_ptr<traces::TraceSource> open_workload(const ServingConfig& config, std::uint64_t seed);
/// The same of `workload`: the config's, or it with changes.
std::unique_ptr<traces::TraceSource> open_workload(const ServingConfig& config, const WorkloadParams& workload,
                                                   std::uint64_t seed);

/// What sends the workload's requests: `source` (open_workload()), which must outlive it, or its program, whose
/// instances are at most `workload.limit`.
std::unique_ptr<Load> make_load(const WorkloadParams& workload, traces::TraceSource* source, std::uint64_t seed,
                                sim::Time warmup);

/// Requests in the workload, for progress: exact for a generator, the lines of a plain trace file, unknown for a
/// compressed one.
std::optional<std::int64_t> expected_requests(const WorkloadParams& workload);
/// More than which there cannot be; nothing where that is not known beforehand (programs). A trace
/// without a limit is read for it.
std::optional<std::int64_t> most_requests(const WorkloadParams& workload);

}  // namespace orrery::experiments
