// What `run` does, for the commands that are a run with another question: capacity, slo, plans.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"

namespace orrery::tools {

struct RunOptions {
  std::string config, out;
  std::vector<std::string> assignments;  ///< of the user; laid over `before`
  std::vector<std::string> before;       ///< of the command
  std::optional<std::int64_t> seed;
  std::optional<std::int64_t> point;  ///< of a study's store, which `config` then is
  std::string study;                  ///< file of that study; empty: where it was
  bool fail_infeasible = false;       ///< exit code 3 for an answer that is not "ok"
  bool force = false, dry_run = false, json = false, quiet = false;
};

/// CONFIG, --set, --out, --seed, --force, --dry-run, --json, --quiet; `options` must outlive the parser.
void add_run_options(CLI::App& command, RunOptions& options);
/// Runs the experiment, writes its folder, prints its summary. Returns the exit code.
int run_config(const experiments::Systems& systems, const RunOptions& options);

}  // namespace orrery::tools
