// The summary of a run as a table for a terminal.
#pragma once

#include <string>
#include <string_view>

#include "sim/base/document.hpp"
#include "sim/base/units.hpp"

namespace orrery::tools {

/// The number at a dotted path with its unit, as people read it; "-" where there is none.
std::string figure(const sim::Node& node, std::string_view path, sim::Unit unit);

/// The number at a dotted path; 0 where there is none.
double number_at(const sim::Node& node, std::string_view path);

/// The target that binds ("binds.target"), as tables call it: TTFT, TBT, or what it is.
std::string target_name(const sim::Node& summary);
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
/// The same for a replay of traces.
std::string tasks_table(const sim::Node& summary);
std::string training_table(const sim::Node& summary);
std::string job_table(const sim::Node& summary);
std::string training_plans_table(const sim::Node& summary);
/// The same for a training.
std::string rl_table(const sim::Node& summary);

}  // namespace orrery::tools
