#include "experiments/uneven/config.hpp"

#include <fmt/format.h>

#include <bit>

namespace orrery::experiments::uneven {
namespace {

using sim::Node;

/// What the training system reads of it.
Node training_part(const Node& root) {
  Node own = root;
  for (const char* name : {"costs", "workload", "plan"}) own.erase(name);
  if (Node* policies = own.find("policies"); policies != nullptr && policies->is_object()) policies->erase("groups");
  return own;
}

void check_stated(const Node& costs, const StatedCostParams& params, sim::Faults& faults) {
  const auto kinds = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(params.devices)));
  if (!std::has_single_bit(static_cast<std::uint64_t>(params.devices)))
    faults.add(place_of(costs, "devices"), fmt::format("expected a power of two, got {}", params.devices));
  else if (params.exchange.size() + 1 != kinds)
    faults.add(place_of(costs, "exchange"),
               fmt::format("expected a bandwidth for each of 2, 4 … {} devices, {} in all, got {}", params.devices,
                           kinds - 1, params.exchange.size()));
}

}  // namespace

UnevenConfig read_uneven_config(const Node& root, const sim::RegistrySet& registries, sim::Faults& faults) {
  UnevenConfig config{.file = root.origin().file, .params = read_sections<Sections>(root, registries, faults)};
  if (!faults.empty()) return config;  // the training system would tell those of its sections again
  const Sections& params = config.params;
  const bool priced = params.machine || params.model;
  if (priced == params.costs.has_value()) {
    faults.add(root.origin(), "expected either 'costs', or a 'machine' and a 'model' that give them");
    return config;
  }
  if (params.costs) {
    check_stated(section(root, "costs"), *params.costs, faults);
    config.devices = params.costs->devices;
  } else {
    config.training = training::read_training_config(training_part(root), registries, faults);
    if (!faults.empty()) return config;
    config.devices = config.training->machine.devices;
    config.params.policies.passes = config.training->params.policies.passes;
    if (!std::has_single_bit(static_cast<std::uint64_t>(config.devices)))
      faults.add(place_of(section(root, "machine"), "devices"),
                 fmt::format("expected a power of two, got {} devices", config.devices));
    if (const auto why = training::machine_obstacle(config.training->machine, config.devices))
      faults.add(section(root, "machine").origin(), *why);
    if (params.plan.exchange == training::ContextExchange::ring)
      faults.add(place_of(section(root, "plan"), "context_exchange"),
                 "expected all_to_all or all_gather: what a ring hides goes by each sequence");
  }
  if (faults.empty()) config.resolved = resolved_config("uneven_batches", config.params);
  return config;
}

}  // namespace orrery::experiments::uneven
