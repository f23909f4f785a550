#include "experiments/systems/serving/load/workload.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <vector>

#include "experiments/systems/serving/load/program_load.hpp"
#include "traces/byte_source.hpp"

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
  if (workload.trace && !workload.trace->path.ends_with(".gz") && !workload.trace->path.ends_with(".zst")) {
    std::ifstream file(workload.trace->path, std::ios::binary);
    const std::int64_t lines = std::count(std::istreambuf_iterator<char>(file), {}, '\n');
    at_most(std::max<std::int64_t>(0, lines - workload.skip));
  }
  return total;
}

std::optional<std::int64_t> most_requests(const WorkloadParams& workload) {
  if (workload.program) return std::nullopt;  // its calls are not counted beforehand
  if (workload.generator)
    return std::min(workload.generator->requests, workload.limit.value_or(std::numeric_limits<std::int64_t>::max()));
  if (!workload.trace) return workload.limit;
  const std::int64_t limit = workload.limit.value_or(std::numeric_limits<std::int64_t>::max() - workload.skip);
  const auto bytes = traces::open_bytes(workload.trace->path);
  std::vector<char> piece(1 << 16);
  std::int64_t lines = 1;  // the last one may lack its end
  while (lines < workload.skip + limit) {
    const std::size_t got = bytes->read(piece.data(), piece.size());
    if (got == 0) break;
    lines += std::count(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(got), '\n');
  }
  return std::clamp<std::int64_t>(lines - workload.skip, 0, limit);
}

}  // namespace orrery::experiments
