// `orrery play`: a trained policy beside rules, on the same runs.
//
// Every row is one policy over the same seeds: the learned one, and rules of the catalog for the same decision. A
// policy of another environment plays episodes of that.
#pragma once

#include <filesystem>

#include "experiments/base/experiment.hpp"

namespace orrery::experiments::rl {

struct PlayOptions {
  std::filesystem::path policy;
  std::filesystem::path config;          ///< of serving; empty: the one that it was trained on
  std::vector<std::string> assignments;  ///< laid over the config
  std::vector<std::string> logs;         ///< steps to show what the policy looks at, in place of runs
  std::vector<std::string> against;      ///< rules, as "hexgen" or "hexgen:alpha=0.5"; none: the config's own; "all"
  std::int64_t seed = 1001, seeds = 5, episodes = 20;
  std::size_t jobs = 1;
  std::function<void(const Progress&)> progress;  ///< may be empty; what it throws ends the runs
};

/// What a policy says of itself, and what it looks at (looks.hpp), or rows: name, and each figure's values over the
/// seeds with their quartiles. Throws sim::ConfigError for what cannot be read or run.
sim::Node play(const Systems& systems, const PlayOptions& options);
/// The same as a table.
std::string play_text(const sim::Node& played);

}  // namespace orrery::experiments::rl
