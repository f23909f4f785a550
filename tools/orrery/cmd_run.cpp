// `orrery run CONFIG`: one experiment, one folder of results, a table on stdout.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>

#include "experiments/base/experiment.hpp"
#include "experiments/base/run_folder.hpp"
#include "experiments/base/stopped.hpp"
#include "experiments/base/study_file.hpp"
#include "experiments/study/stored_point.hpp"
#include "tools/orrery/commands.hpp"
#include "tools/orrery/interrupt.hpp"
#include "tools/orrery/progress.hpp"
#include "tools/orrery/run_command.hpp"
#include "tools/orrery/summary_table.hpp"
#include "tools/orrery/terminal.hpp"

namespace orrery::tools {
namespace {

namespace fs = std::filesystem;

void print_result(const experiments::Experiment& experiment, const sim::Node& summary, const RunOptions& options) {
  if (options.json) {
    fmt::print("{}\n", summary.dump(2));
    return;
  }
  std::string table;
  const auto restated = experiment.restated();
  for (const auto& [what, text] : restated) table += fmt::format("{:<12} {}\n", what, text);
  if (!restated.empty()) table += '\n';
  table += summary_table(summary);
  fmt::print("{}", takes_colour(stdout) ? coloured_table(table) : table);
}

/// 0, or where the user wants to know 3 for a design that does not fit, a load that is not borne, a run that serves
/// nobody.
int exit_code(const sim::Node& summary, const RunOptions& options) {
  constexpr int kNotOk = 3;
  const sim::Node* status = summary.find("status");
  return options.fail_infeasible && status != nullptr && status->as_string() != "ok" ? kNotOk : 0;
}

std::unique_ptr<experiments::Experiment> read(const Systems& systems, const RunOptions& options,
                                              const std::vector<std::string>& assignments) {
  if (options.point)
    return experiments::study::read_point(systems, options.config, *options.point, options.study, assignments);
  if (experiments::study::is_store(options.config))
    sim::throw_fault({options.config, ""}, "expected an experiment, got the store of a study",
                     "--point N runs one of its points");
  return experiments::read_experiment(systems, options.config, assignments);
}

/// What the run is called if the user does not say.
fs::path name_of(const RunOptions& options) {
  if (options.config == "-") return "stdin";
  if (!options.point) return options.config;
  return fmt::format("{}-{}", fs::path(options.config).stem().string(), *options.point);
}

int run(const Systems& systems, const RunOptions& options) {
  std::vector<std::string> assignments = options.before;
  assignments.insert(assignments.end(), options.assignments.begin(), options.assignments.end());
  if (options.seed) assignments.push_back(fmt::format("run.seed={}", *options.seed));
  const auto experiment = read(systems, options, assignments);
  if (!options.quiet)
    for (const std::string& note : experiment->notes()) fmt::print(stderr, "note: {}\n", note);
  const std::string hash = experiments::config_hash(*experiment);
  const fs::path folder =
      options.out.empty() ? experiments::default_run_folder(name_of(options), hash) : fs::path(options.out);
  if (options.dry_run) {
    fmt::print("{}\n", experiment->resolved().dump(2));
    if (!options.quiet) fmt::print(stderr, "{}", experiment->description());
    if (!options.quiet) fmt::print(stderr, "dry run: would write {}\n", folder.string());
    return 0;
  }
  if (!options.force && experiments::folder_state(folder, hash) == experiments::FolderState::same_run) {
    if (!options.quiet)
      fmt::print(stderr, "{}: holds this very run already; reused (--force runs it again)\n", folder.string());
    const sim::Node summary = sim::read_json(folder / "summary.json");
    print_result(*experiment, summary, options);
    return exit_code(summary, options);
  }
  experiments::RunFolder target(folder, options.force);
  watch_for_interrupts();
  const auto start = std::chrono::steady_clock::now();
  experiments::Outcome outcome;
  {
    ProgressBar bar(options.quiet);
    outcome = experiment->run({target.working(), [&](const experiments::Progress& progress) {
                                 if (g_interrupted != 0) throw experiments::Stopped{};
                                 bar.update(progress);
                               }});
  }
  const double wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  experiments::write_text(target.working() / "summary.json", outcome.summary.dump(2) + "\n");
  experiments::write_text(target.working() / "manifest.json",
                          experiments::manifest(*experiment, outcome, {hash, wall_s}).dump(2) + "\n");
  target.commit();
  print_result(*experiment, outcome.summary, options);
  if (!options.quiet) {
    for (const std::string& note : outcome.notes) fmt::print(stderr, "note: {}\n", note);
    fmt::print(stderr, "{} events in {:.2f} s; results in {}\n", outcome.events, wall_s, folder.string());
  }
  return exit_code(outcome.summary, options);
}

}  // namespace

int run_config(const Systems& systems, const RunOptions& given) {
  RunOptions options = given;
  options.config = experiments::named_document(given.config);
  return run(systems, options);
}

void add_run_options(CLI::App& command, RunOptions& options) {
  command
      .add_option("CONFIG", options.config,
                  "Experiment config (JSON): a file, the name of a built-in one, or - for stdin")
      ->required();
  command.add_option("--set", options.assignments, "Change a value: a.b.c=value (may be given several times)")
      ->allow_extra_args(false);
  command.add_option("--out", options.out, "Folder for the results (default: runs/CONFIG-HASH)");
  command.add_option("--seed", options.seed, "Seed of the random streams (run.seed)")->check(CLI::NonNegativeNumber);
  command.add_flag("--force", options.force, "Replace the folder if it exists");
  command.add_flag("--dry-run", options.dry_run, "Validate and print the config with all defaults, but run nothing");
  command.add_flag("--fail-infeasible", options.fail_infeasible, "Exit with code 3 if the status is not \"ok\"");
  command.add_flag("--json", options.json, "Print summary.json instead of a table");
  command.add_flag("--quiet", options.quiet, "Show no progress and no notes");
}

void add_run(CLI::App& app, Action& action) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Run one experiment and write its results");
  add_run_options(*command, *options);
  CLI::Option* point =
      command->add_option("--point", options->point, "Number of a point to run; CONFIG is then the store of a study");
  command->add_option("--study", options->study, "With --point: the study's file, if it has moved")->needs(point);
  command->callback(
      [options, &action] { action = [options](const Systems& systems) { return run_config(systems, *options); }; });
}

}  // namespace orrery::tools
