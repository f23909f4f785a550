// Python packages that the command hands work to: reports and figures.
#pragma once

#include <string>
#include <vector>

namespace orrery::tools {

/// Debian's interpreter, or $ORRERY_PYTHON; it may not be there.
std::string python_interpreter();
/// Whether it can import a module.
bool python_has(const std::string& module);

/// The command that runs a package of tools/python under Debian's interpreter ($ORRERY_PYTHON, else
/// /usr/bin/python3). Throws sim::ConfigError where there is no interpreter.
std::vector<std::string> python_command(const std::string& package, const std::vector<std::string>& arguments);

/// Runs it; its exit code, 1 if it could not be started.
int run_python_tool(const std::string& package, const std::vector<std::string>& arguments);

/// Puts it in this process's place, so that signals reach it; returns (with 1) only if it could not be started. INT, TERM
/// and HUP are blocked then: the package unblocks them once it can answer them.
int become_python_tool(const std::string& package, const std::vector<std::string>& arguments);

}  // namespace orrery::tools
