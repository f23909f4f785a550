// Files of a graph run: requests.csv, energy.csv, graph.txt, timeline.pftrace.
#pragma once

#include <filesystem>

#include "experiments/systems/graph/run.hpp"

namespace orrery::experiments::graph {

void write_files(const std::filesystem::path& folder, const GraphConfig& config, const GraphResult& result);

}  // namespace orrery::experiments::graph
