#include "experiments/systems/serving/config/router_choices.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/catalog.hpp"
#include "experiments/base/config_parts.hpp"
#include "models/transformer/hf_config.hpp"

namespace orrery::experiments {

sim::FieldRows<ServedRouter> ServedRouter::fields() {
  using R = ServedRouter;
  static const auto table = sim::joined(
      sim::inherited<R>(ReplayedRouter::fields()),
      sim::FieldTable{sim::field("walk", &R::walk, sim::Unit::tokens, sim::between(0, 1 << 30),
                                 "Request r begins at token r x walk of the trace, so that what is popular changes as "
                                 "the trace does. 0: requests are scattered over the trace.")});
  return table;
}

void read_router_choices(const sim::Node& root, ServingConfig& config, sim::Faults& faults) {
  if (!config.workload.router) {
    const sim::Node policies = section(root, "policies");
    if (config.policies.redundant > 0)
      faults.add(place_of(policies, "redundant"), "expected 0 without workload.router, whose rows they share");
    if (config.policies.placement.name != "contiguous")
      faults.add(place_of(policies, "placement"),
                 "expected contiguous without workload.router, which says what experts are asked for");
    if (config.policies.rebalance)
      faults.add(place_of(policies, "rebalance"), "expected none without workload.router, which says what changes");
  } else if (config.policies.rebalance) {
    const sim::Node policies = section(root, "policies");
    if (config.policies.placement.name == "contiguous")
      faults.add(place_of(policies, "rebalance"), "expected none beside placement contiguous, which asks for no loads",
                 "policies.placement");
    if (config.policies.rebalance->window > config.policies.rebalance->interval)
      faults.add(place_of(section(policies, "rebalance"), "window"),
                 fmt::format("expected at most the interval, {} iterations", config.policies.rebalance->interval));
  }
  if (!config.workload.router || !faults.empty()) return;
  const sim::Node router = section(section(root, "workload"), "router");
  const sim::Origin where = router.origin();
  const models::ModelConfig model = models::load_model(config.model_file.string(), home_folder() / "models/catalog");
  if (model.experts.count == 0)
    return faults.add(where, fmt::format("expected none beside {}, which has no experts", config.model.config));
  if (config.machine.profile.path)
    return faults.add(where, "expected none beside machine.profile, whose times are of all tokens alike");
  if (config.model.builder || config.model.import_)
    return faults.add(where, "expected none beside a graph that is named, whose experts share rows evenly");
  if (std::ranges::any_of(config.parts, [](const DevicePart& part) { return part.attention.has_value(); }))
    return faults.add(where, "expected none beside machine.devices[].attention, which prices halves of a batch");
  traces::RouterTrace trace = read_replayed_router(router, *config.workload.router, routed_model(model),
                                                   config.run.seed, config.planned_tokens, faults);
  if (!faults.empty()) return;
  if (config.planned_tokens == 0 && config.policies.placement.name != "contiguous")
    faults.add(place_of(section(root, "policies"), "placement"),
               fmt::format("expected tokens to plan on, got none of the {} of workload.router", trace.tokens()),
               "workload.router.planned");
  config.expert_layers = expert_layers(model);
  config.router_choices = std::make_shared<const traces::RouterTrace>(std::move(trace));
}

}  // namespace orrery::experiments
