// Why a rate is too high: the target that binds there, what makes it bind, and one change of the policy that was tried
// and lifts it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "experiments/capacity/probe.hpp"

namespace orrery::experiments::capacity {

/// Runs the first replication of a probe that does not hold once more, and watches it. Empty if it holds, or fails
/// because its queue grows while every target is met.
Binding binding_at(const ServingConfig& config, const ServingSetup& setup, const CapacityParams& params,
                   const Probe& probe);

/// Its target, cause and text as they stand in summary.json.
sim::Node binding_node(const Binding& binding);

/// A change of a config: what --set takes.
struct Change {
  std::vector<std::string> assignments;
  std::string text;  ///< for people
};
/// Changes of the batching policy that may lift a cause, those nearest to the config first; `resolved`: the whole
/// config. Empty where none is known.
std::vector<Change> changes_for(Cause cause, const sim::Node& resolved);

/// The best change that was tried.
struct Suggestion {
  Change change;
  double capacity_per_s = 0;
};
/// Searches the capacity of `root` (a serving config) with each change, from 5 % above `capacity_per_s` on; none if no
/// change reaches that.
std::optional<Suggestion> suggest(const sim::Node& root, const Systems& systems, const CapacityParams& params,
                                  const std::vector<Change>& changes, double capacity_per_s);

}  // namespace orrery::experiments::capacity
