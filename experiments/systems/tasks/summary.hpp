// Figures of a replay, and its files.
#pragma once

#include <filesystem>

#include "experiments/base/figure_table.hpp"
#include "experiments/systems/tasks/run.hpp"

namespace orrery::experiments::tasks {

sim::Node summarise(const TasksConfig& config, const TasksResult& result);
std::vector<FigureInfo> tasks_figures();

/// tasks.csv: a row a task, in the order of the traces.
void write_tasks(const std::filesystem::path& file, const TasksConfig& config, const TasksResult& result);
/// timeline.pftrace: a group a rank, with tracks for its device, its CPU and what it sends.
void write_timeline(const std::filesystem::path& file, const TasksConfig& config, const TasksResult& result);

}  // namespace orrery::experiments::tasks
