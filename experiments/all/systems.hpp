// The roof: every system, every registry, and everything with a name.
#pragma once

#include <span>

#include "experiments/base/experiment.hpp"
#include "policies/plugin_host.hpp"

namespace orrery::experiments {

/// Every registry that there is, with the policies of `plugins`.
SharedRegistries all_registries(std::span<const policies::LoadedPlugin> plugins = {});

/// Every system with every registry: what main(), the Python module and tests make, once, and pass to all who read
/// configs.
Systems all_systems(std::span<const policies::LoadedPlugin> plugins = {});

/// JSON Schema (draft-07) of experiment configs and studies, from the field tables.
sim::Node config_schema(const Systems& systems);

/// Everything with a name: policies, cost models, trace formats, parts, models … for `list` and `describe`.
std::vector<sim::ComponentInfo> all_components(const Systems& systems);

/// component_node() of one, and of a system with a figure table its `figures`: [{"path", "unit", "meaning"}].
sim::Node described(const Systems& systems, const sim::ComponentInfo& component);

/// More about a component than its fields say, as text: the values of a part, the claims of a study. Empty for others.
std::string component_text(const Systems& systems, const sim::ComponentInfo& component);

}  // namespace orrery::experiments
