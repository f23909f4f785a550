#include "experiments/systems/serving/load/workload.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "experiments/systems/serving/load/program_load.hpp"

namespace orrery::experiments {

std::unique_ptr<traces::TraceSource> open_workload(const ServingConfig& config, const WorkloadParams& workload,
                                                   std::uint64_t seed) {
  if (workload.program)
    sim::throw_fault({config.file, "/workload/program"}, "expected a trace or a generator, which this needs");
  if (workload.generator) return traces::make_generated_trace(*workload.generator, seed);
  auto source = traces::open_trace(*workload.trace, config.registries->get<traces::FormatTable>());
  if (workload.skip > 0) source = traces::without_first(std::move(source), workload.skip, workload.trace->path);
  if (workload.arrivals) return traces::retime(std::move(source), *workload.arrivals, seed);
  traces::require_arrivals(*source, workload.trace->path);
  return source;
}

std::unique_ptr<traces::TraceSource> open_workload(const ServingConfig& config, std::uint64_t seed) {
  return open_workload(config, config.workload, seed);
}

std::unique_ptr<Load> make_load(const WorkloadParams& workload, traces::TraceSource* source, std::uint64_t seed,
                                sim::Time warmup) {
  Predictor predictor(workload.predictor, seed);
  if (!workload.program)
    return std::make_unique<TraceLoad>(
        *source, workload, std::move(predictor),
        workload.trace ? workload.trace->prefix_block_tokens : traces::kPrefixBlockTokens);
  ProgramsParams programs = *workload.program;
  if (workload.limit) programs.instances = std::min(programs.instances.value_or(*workload.limit), *workload.limit);
  return std::make_unique<ProgramLoad>(programs, seed, workload.rate_scale, std::move(predictor), warmup);
}

std::optional<std::int64_t> expected_requests(const WorkloadParams& workload) {
  std::optional<std::int64_t> total = workload.limit;
  const auto at_most = [&](std::int64_t count) { total = std::min(count, total.value_or(count)); };
  if (workload.generator) at_most(workload.generator->requests);
  if (workload.trace && !workload.trace->path.ends_with(".gz") &&
      !workload.trace->path.ends_with(".zst")) {
    std::ifstream file(workload.trace->path, std::ios::binary);
    const std::int64_t lines = std::count(std::istreambuf_iterator<char>(file), {}, '\n');
    at_most(std::max<std::int64_t>(0, lines - workload.skip));
  }
  return total;
}

}  // namespace orrery::experiments
