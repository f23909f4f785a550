// `--plugin FILE.so`, an option of every command: policies that were built out of the tree (docs/explain/plugins.md).
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace orrery::tools {

/// Adds the option to the program and to every command that is there already; what is given goes to `files`.
void add_plugin_option(CLI::App& app, std::vector<std::string>& files);

/// Loads those that $ORRERY_PLUGINS names, then `files`, and leaves all in $ORRERY_PLUGINS for the processes that a
/// command starts. Throws sim::ConfigError.
void load_plugins(const std::vector<std::string>& files);

}  // namespace orrery::tools
