// The files of a launch run: points.csv, and timeline.pftrace with a track for each platform's thread and device.
#pragma once

#include <filesystem>

#include "experiments/systems/launch/run.hpp"

namespace orrery::experiments::launch {

/// Throws std::runtime_error if a file cannot be written.
void write_files(const std::filesystem::path& folder, const LaunchConfig& config, const LaunchResult& result);

}  // namespace orrery::experiments::launch
