#include "experiments/serving/workload.hpp"

namespace orrery::experiments {

std::unique_ptr<traces::TraceSource> open_workload(const ServingConfig& config, std::uint64_t seed) {
  if (config.generator) return traces::make_generated_trace(*config.generator, seed);
  auto source = traces::open_trace(*config.trace, trace_formats());
  if (config.arrivals) return traces::retime(std::move(source), *config.arrivals, seed);
  traces::require_arrivals(*source, config.trace->path);
  return source;
}

std::optional<std::int64_t> expected_requests(const ServingConfig& config) {
  if (config.generator)
    return std::min(config.generator->params.requests,
                    config.workload.limit.value_or(config.generator->params.requests));
  return config.workload.limit;
}

}  // namespace orrery::experiments
