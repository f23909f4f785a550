// What a plugin hands over: for each kind of policy a function that adds its policies to a registry of that kind.
// Registries are only named here, so that a plugin includes no more than the interfaces it implements.
#pragma once

#include <string>
#include <string_view>

#include "policies/kinds.hpp"

namespace orrery::policies {

/// Describes a plugin. A hook that is null adds nothing; one that is there is called for every registry that is filled,
/// so it does nothing but add.
struct Plugin {
  const char* name = "";  ///< of the plugin
  const char* doc = "";   ///< one line
#define ORRERY_KIND(name, fill, Interface, ...) void (*name)(sim::Registry<Interface __VA_OPT__(, ) __VA_ARGS__>&) = nullptr;
  ORRERY_POLICY_KINDS(ORRERY_KIND)
#undef ORRERY_KIND
};

/// What the program that loads a plugin lends to the plugin's copy of the code: names of dimensions are compared by
/// address, so both must keep them in one place (models::share_names).
struct PluginHost {
  const std::string* (*intern_name)(std::string_view) = nullptr;
};

/// Names of the two symbols that a plugin exports: the ABI it was built for (text), and the entry.
inline constexpr const char* kPluginAbiSymbol = "orrery_plugin_abi";
inline constexpr const char* kPluginEntrySymbol = "orrery_plugin";
using PluginEntry = const Plugin* (*)(const PluginHost&);

}  // namespace orrery::policies
