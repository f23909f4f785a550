// Every policy that there is, by the decision it takes. One value, made by main() (by a test, by the Python module) and
// passed to whoever reads configs.
#pragma once

#include <span>

#include "policies/kinds.hpp"
#include "policies/plugin_host.hpp"
#include "sim/base/random.hpp"
#include "sim/base/registry.hpp"

namespace orrery::policies {

/// A registry for each kind (policies/kinds.hpp), under the kind's name.
struct Registries {
#define ORRERY_KIND(name, fill, Interface, ...) sim::Registry<Interface __VA_OPT__(, ) __VA_ARGS__> name{#name};
  ORRERY_POLICY_KINDS(ORRERY_KIND)
#undef ORRERY_KIND
};

/// The policies that ship, and those of `plugins`.
Registries all_policies(std::span<const LoadedPlugin> plugins = {});

}  // namespace orrery::policies
