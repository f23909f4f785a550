#include "experiments/capacity/steady_run.hpp"

#include <fmt/format.h>

#include "experiments/base/config_parts.hpp"

namespace orrery::experiments::capacity {
namespace {

std::string reason_of(const RunLength& length, LoadState load, std::int64_t requests) {
  if (load == LoadState::overloaded)
    return fmt::format("requests take longer and longer: the figures are those of {} requests", requests);
  return fmt::format("arrivals span {:.1f} mean times in system, {:.0f} without a growing queue are wanted: {}",
                     length.spans(), RunLength::kSpans, length.limit_text());
}

SteadyRun run_serving(const sim::Node& root, const Systems& systems, std::int64_t max_requests, bool once) {
  sim::Faults faults;
  const ServingConfig config = read_serving_config(root, systems.registries(), faults);
  faults.throw_if_any();
  const ServingSetup setup(config);
  if (setup.infeasible()) return {.summary = summarise(*setup.infeasible())};
  const Arrivals arrivals = arrivals_of(config, {}, max_requests);
  RunLength length(arrivals);
  SteadyRun run;
  do {
    run.requests = length.requests();
    const ServingResult result = run_watched(config, setup, nullptr, {}, RunChange{.requests = run.requests});
    run.summary = summarise(result, tick_scale(config.run.tick_s));
    if (once || arrivals.per_s == 0) return run;
    length.add(result);
    run.load = length.load();
  } while (run.load == LoadState::too_short && length.lengthen());
  if (run.load != LoadState::steady) run.reason = reason_of(length, run.load, length.requests());
  return run;
}

}  // namespace

SteadyRun run_steady(const sim::Node& root, const Systems& systems, std::int64_t max_requests) {
  return run_serving(root, systems, max_requests, false);
}

SteadyRun run_once(const sim::Node& root, const Systems& systems) {
  return run_serving(root, systems, kMaxRequests, true);
}

}  // namespace orrery::experiments::capacity
