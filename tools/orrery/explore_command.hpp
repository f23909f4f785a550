// What `sweep`, `search` and `best` share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "experiments/study/results.hpp"
#include "experiments/study/study.hpp"
#include "tools/orrery/commands.hpp"

namespace orrery::tools {

struct ExploreCommand {
  std::string file, out, cluster;
  std::vector<std::string> assignments, from;
  std::optional<std::int64_t> seed;
  std::size_t jobs = std::max(1U, std::thread::hardware_concurrency());
  bool search = false, resume = false, force = false, any_build = false, dry_run = false, json = false, quiet = false;
};

/// Explores a study that was read into its store and prints what came of it; returns the exit code.
int explore_study(const experiments::study::Study& study, const ExploreCommand& options);

/// What `orrery best` prints of stores, and how many points the first has of each kind.
struct BestAnswer {
  std::string text;
  experiments::study::StoreCounts counts;
};
BestAnswer best_answer(std::span<const std::filesystem::path> files, std::size_t top, bool json);

/// Adds the command: reads a study, explores it into a store, prints the best points.
void add_explore(CLI::App& app, Action& action, const char* name, const char* doc, bool search);

}  // namespace orrery::tools
