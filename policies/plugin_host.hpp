// Plugins that this process has loaded (policies/plugin.hpp is what their authors see).
//
// Loading is for the life of the process: what a plugin registers appears in every registry that is filled from then
// on. So plugins come first, before configs are read; the command loads them before it acts.
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
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

/// Adds the policies of all loaded plugins: the last line of every register function.
template <class R>
void add_plugin_policies(R& registry, void (*Plugin::*hook)(R&)) {
  for (const LoadedPlugin& loaded : loaded_plugins())
    if (loaded.plugin->*hook != nullptr) (loaded.plugin->*hook)(registry);
}

/// Something made from the registries once, and once more after every plugin: earlier copies stay where they are.
template <class T>
class PerPlugins {
 public:
  template <class Make>
  const T& get(Make make) {
    const std::size_t plugins = loaded_plugins().size();
    const std::lock_guard lock(mutex_);
    if (made_.empty() || made_.back().first != plugins) made_.emplace_back(plugins, make());
    return made_.back().second;
  }

 private:
  std::mutex mutex_;
  std::deque<std::pair<std::size_t, T>> made_;
};

}  // namespace orrery::policies
