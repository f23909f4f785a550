// What a run of programs leaves behind.
#pragma once

#include <filesystem>
#include <vector>

#include "experiments/base/figure_table.hpp"
#include "experiments/systems/serving/programs/program.hpp"
#include "sim/base/document.hpp"

namespace orrery::experiments {

/// programs.csv: a row an instance, in the order of their starts.
void write_programs_table(const std::filesystem::path& path, const ProgramMetrics& metrics,
                          const sim::TickScale& scale);
/// The member `programs` of summary.json; `span_s` is the length of the run.
sim::Node summarise_programs(const ProgramMetrics& metrics, double span_s, const sim::TickScale& scale);
/// What it has.
std::vector<FigureInfo> program_figures();

}  // namespace orrery::experiments
