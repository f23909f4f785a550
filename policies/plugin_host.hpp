// Plugins that this process has loaded (policies/plugin.hpp is what their authors see).
//
// Loading is for the life of the process: what a plugin registers appears in all registries that all_policies()
// (policies/registries.hpp) makes from then on. So plugins come first, before configs are read; the command loads them
// before it acts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "policies/plugin_hooks.hpp"

namespace orrery::policies {

struct LoadedPlugin {
  std::filesystem::path file;  ///< absolute
  std::string digest;          ///< of its content, 16 hex digits: part of a run's identity
  const Plugin* plugin = nullptr;
};

/// Loads a plugin, or nothing if this very file is loaded already. Throws sim::ConfigError with a fault at the file if
/// it is no shared object, has no entry, was built for another ABI, or names a policy that is there already.
LoadedPlugin load_plugin(const std::filesystem::path& file);

/// Loads the files that $ORRERY_PLUGINS names, with ':' between them. Throws as load_plugin does.
inline constexpr const char* kPluginVariable = "ORRERY_PLUGINS";
void load_environment_plugins();

/// All that are loaded, in the order of loading.
std::vector<LoadedPlugin> loaded_plugins();

/// What plugins were built for if they fit this program.
const char* plugin_abi();

}  // namespace orrery::policies
