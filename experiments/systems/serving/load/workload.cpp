#include "experiments/systems/serving/load/workload.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "experiments/systems/serving/load/program_load.hpp"

namespace orrery::experiments {

std::unique_ptr<traces::TraceSource> open_workload(const ServingConfig& config, std::uint64_t seed) {
  if (config.program)
    sim::throw_fault({config.file, "/workload/program"}, "expected a trace or a generator, which this needs");
  if (config.generator) return traces::make_generated_trace(*config.generator, seed);
  auto source = traces::open_trace(*config.trace, trace_formats());
  if (config.arrivals) return traces::retime(std::move(source), *config.arrivals, seed);
  traces::require_arrivals(*source, config.trace->path);
  return source;
}

std::unique_ptr<Load> make_load(const ServingConfig& config, const WorkloadParams& workload,
                                traces::TraceSource* source, std::uint64_t seed, sim::Time warmup) {
  Predictor predictor(workload.predictor, seed);
  if (!config.program)
    return std::make_unique<TraceLoad>(*source, workload, std::move(predictor),
                                       config.trace ? config.trace->prefix_block_tokens : traces::kPrefixBlockTokens);
  ProgramsConfig programs = *config.program;
  if (workload.limit)
    programs.params.instances = std::min(programs.params.instances.value_or(*workload.limit), *workload.limit);
  return std::make_unique<ProgramLoad>(programs, seed, workload.rate_scale, std::move(predictor), warmup);
}

std::optional<std::int64_t> expected_requests(const ServingConfig& config) {
  std::optional<std::int64_t> total = config.workload.limit;
  const auto at_most = [&](std::int64_t count) { total = std::min(count, total.value_or(count)); };
  if (config.generator) at_most(config.generator->params.requests);
  if (config.trace && !config.trace->path.ends_with(".gz") && !config.trace->path.ends_with(".zst")) {
    std::ifstream file(config.trace->path, std::ios::binary);
    at_most(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
  }
  return total;
}

}  // namespace orrery::experiments
