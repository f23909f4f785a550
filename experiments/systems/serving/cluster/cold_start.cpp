#include "experiments/systems/serving/cluster/cold_start.hpp"

#include <algorithm>

namespace orrery::experiments {

ColdStarts::ColdStarts(const ColdStartParams& params, const sim::TickScale& scale)
    : params_(params),
      scale_(scale),
      schedulers_(static_cast<std::size_t>(params.schedulers)),
      pool_(static_cast<std::size_t>(params.reserved)),
      creators_(static_cast<std::size_t>(params.creators)),
      loads_(static_cast<std::size_t>(params.loads)) {}

sim::Time ColdStarts::serve(std::vector<sim::Time>& servers, sim::Time ready, sim::Duration time) {
  sim::Time& first = *std::min_element(servers.begin(), servers.end());
  first = std::max(first, ready) + time;
  return first;
}

ColdStart ColdStarts::start(sim::Time now, std::int64_t weight_bytes) {
  const sim::Time scheduled = serve(schedulers_, now, scale_.duration(params_.scheduling_s));
  const sim::Duration create = scale_.duration(params_.create_s);
  sim::Time allocated;
  const auto pod = std::min_element(pool_.begin(), pool_.end());
  if (pod != pool_.end() && *pod <= scheduled) {
    allocated = scheduled + scale_.duration(params_.select_s);
    *pod = scheduled + create;
  } else {
    allocated = serve(creators_, scheduled, create);
  }
  const sim::Time coded = allocated + scale_.duration(params_.code_s);
  const sim::Duration load = scale_.duration(static_cast<double>(weight_bytes) / params_.storage_bandwidth);
  const sim::Time loaded = serve(loads_, coded, load);
  return {scheduled - now, allocated - scheduled, coded - allocated, loaded - coded};
}

}  // namespace orrery::experiments
