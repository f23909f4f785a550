// What `sweep` and `search` share.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/orrery/commands.hpp"

namespace orrery::tools {

/// Adds the command: reads a study, explores it into a store, prints the best points.
void add_explore(CLI::App& app, Action& action, const char* name, const char* doc, bool search);

}  // namespace orrery::tools
