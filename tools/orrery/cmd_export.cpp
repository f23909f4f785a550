// `orrery best STORE…` and `orrery export STORE…`: what stores hold.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "experiments/study/results.hpp"
#include "experiments/study/selected.hpp"
#include "tools/orrery/commands.hpp"
#include "tools/orrery/explore_command.hpp"

namespace orrery::tools {
namespace {

namespace fs = std::filesystem;
namespace study = experiments::study;

struct ExportOptions {
  std::vector<std::string> files;
  std::string format = "csv", out;
};

struct BestOptions {
  std::vector<std::string> files;
  std::size_t top = 10;
  bool confirmed = false;
  study::ConfirmOptions confirm;
  ExploreCommand explore;
};

std::vector<fs::path> paths(const ExportOptions& options) {
  return {options.files.begin(), options.files.end()};
}

/// Exit code 1 and a message where not all could be written.
int written(std::ostream& out, const std::string& where) {
  out.flush();
  if (out) return 0;
  fmt::print(stderr, "{}: could not be written in full\n", where);
  return 1;
}

int export_points(const ExportOptions& options) {
  const std::vector<fs::path> files = paths(options);
  std::ofstream file;
  if (!options.out.empty()) {
    file.open(options.out, std::ios::binary);
    if (!file)
      sim::throw_fault({options.out, ""},
                       fmt::format("expected a place that can be written: {}", std::strerror(errno)));
  }
  std::ostream& out = options.out.empty() ? std::cout : file;
  (options.format == "csv" ? study::export_csv : study::export_jsonl)(files, out);
  return written(out, options.out.empty() ? "stdout" : options.out);
}

/// Runs the best points again until it is known which is best, into a store of its own.
int confirm(const Systems& systems, const BestOptions& options) {
  if (options.files.size() != 1)
    sim::throw_fault({options.files[1], ""},
                     fmt::format("--confirm runs the points of one store, got {}", options.files.size()));
  return explore_study(study::confirming_study(systems, options.files[0], options.confirm), options.explore);
}

int best(const Systems& systems, const BestOptions& options) {
  if (options.confirmed) return confirm(systems, options);
  const std::vector<fs::path> files(options.files.begin(), options.files.end());
  std::cout << best_answer(files, options.top, options.explore.json).text;
  return written(std::cout, "stdout");
}

}  // namespace

void add_export(CLI::App& app, Action& action) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* command = app.add_subcommand("export", "Print all points of stores of studies, side by side");
  command->add_option("STORE", options->files, "Stores written by sweep and search")->required();
  command->add_option("--format", options->format, "Output format: csv or jsonl")
      ->check(CLI::IsMember({"csv", "jsonl"}));
  command->add_option("--out", options->out, "File to write (default: stdout)");
  command->callback([options, &action] { action = [options](const Systems&) { return export_points(*options); }; });
}

void add_best(CLI::App& app, Action& action) {
  auto options = std::make_shared<BestOptions>();
  options->explore.search = true;
  CLI::App* command =
      app.add_subcommand("best", "Show the best points, or the Pareto front, of one or several stores together");
  command->add_option("STORE", options->files, "Stores written by sweep and search, with the same objectives")
      ->required();
  command->add_option("--top", options->top, "How many of the best points to show (one objective)")
      ->check(CLI::PositiveNumber);
  command->add_flag("--json", options->explore.json, "Print JSON");
  CLI::Option* confirm =
      command->add_flag("--confirm", options->confirmed,
                        "Run the best points again with fresh seeds, until it is known which is best (one objective)");
  const auto of_confirm = [&](CLI::Option* option) { return option->needs(confirm); };
  of_confirm(
      command->add_option("--candidates", options->confirm.candidates, "How many of the best points to run again"))
      ->check(CLI::Range(1, 1000));
  of_confirm(command->add_option("--within", options->confirm.within,
                                 "Difference from the best mean that does not matter, as a share of it"))
      ->check(CLI::Range(1e-6, 1.0));
  of_confirm(command->add_option("--confidence", options->confirm.confidence, "Probability that the answer is right"))
      ->check(CLI::Range(0.5, 0.9999));
  of_confirm(command->add_option("--runs", options->confirm.runs, "Most runs in all"))
      ->check(CLI::Range(1, 10'000'000));
  of_confirm(command->add_option("--study", options->confirm.study, "File of the store's study, if it has moved"));
  of_confirm(command->add_option("--out", options->explore.out,
                                 "Store for the runs (default: runs/STUDY-confirm-HASH.sqlite)"));
  of_confirm(command->add_option("--jobs", options->explore.jobs, "Number of threads; rows do not depend on it"))
      ->check(CLI::Range(1, 1024));
  of_confirm(command->add_option("--cluster", options->explore.cluster,
                                 "Address of a Dask scheduler whose workers execute the runs"));
  of_confirm(command->add_flag("--force", options->explore.force, "Replace the store of the runs if it exists"));
  of_confirm(command->add_flag("--quiet", options->explore.quiet, "Show no progress and no notes"));
  command->callback(
      [options, &action] { action = [options](const Systems& systems) { return best(systems, *options); }; });
}

}  // namespace orrery::tools
