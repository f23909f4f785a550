// Python packages that the command hands work to: reports and figures.
#pragma once

#include <string>
#include <vector>

namespace orrery::tools {

/// Runs a package of tools/python under Debian's interpreter ($ORRERY_PYTHON, else /usr/bin/python3); its exit code, 1
/// if it could not be started. Throws sim::ConfigError where there is no interpreter.
int run_python_tool(const std::string& package, const std::vector<std::string>& arguments);

}  // namespace orrery::tools
