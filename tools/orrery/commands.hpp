// The commands of `orrery`: each adds its options to the parser and what to do when it is chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"

namespace orrery::tools {

/// What main() does once the arguments are parsed and plugins are loaded; returns the exit code.
using experiments::Systems;
using Action = std::function<int(const Systems&)>;

/// One line a command; each is in a file of its own (cmd_NAME.cpp).
void add_run(CLI::App& app, Action& action);
void add_validate(CLI::App& app, Action& action);
void add_schema(CLI::App& app, Action& action);
void add_list(CLI::App& app, Action& action);
void add_describe(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_trace(CLI::App& app, Action& action);
void add_train(CLI::App& app, Action& action);
void add_play(CLI::App& app, Action& action);
void add_calibrate(CLI::App& app, Action& action);
void add_fidelity(CLI::App& app, Action& action);
void add_graph(CLI::App& app, Action& action);
void add_reproduce(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_capacity(CLI::App& app, Action& action);
void add_goodput(CLI::App& app, Action& action);
void add_progress(CLI::App& app, Action& action);
void add_slo(CLI::App& app, Action& action);
void add_plans(CLI::App& app, Action& action);
void add_experts(CLI::App& app, Action& action);
void add_fits(CLI::App& app, Action& action);
void add_evolve(CLI::App& app, Action& action);
void add_import(CLI::App& app, Action& action);
void add_sweep(CLI::App& app, Action& action);
void add_search(CLI::App& app, Action& action);
void add_best(CLI::App& app, Action& action);
void add_analyse(CLI::App& app, Action& action);
void add_export(CLI::App& app, Action& action);
void add_evaluate_points(CLI::App& app, Action& action);
void add_serve(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
/// After all others, which they are about; `orrery man` and `orrery complete` are hidden from the help.
void add_completion(CLI::App& app, Action& action);
void add_manual(CLI::App& app, Action& action);

}  // namespace orrery::tools
