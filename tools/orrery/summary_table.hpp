// The summary of a run as a table for a terminal.
#pragma once

#include <string>

#include "sim/base/document.hpp"

namespace orrery::tools {

/// Lines of text for summary.json; whatever it lacks is left out.
std::string summary_table(const sim::Node& summary);
/// The same for a network run; summary_table() calls it for one.
std::string network_table(const sim::Node& summary);
/// The same for a launch run.
std::string launch_table(const sim::Node& summary);
/// The same for a search of capacity.
std::string capacity_table(const sim::Node& summary);
/// The same for a sweep of targets, and for plans.
std::string slo_table(const sim::Node& summary);
std::string plans_table(const sim::Node& summary);
/// The same for a graph run.
std::string graph_table(const sim::Node& summary);
/// The same for a training.
std::string rl_table(const sim::Node& summary);

}  // namespace orrery::tools
