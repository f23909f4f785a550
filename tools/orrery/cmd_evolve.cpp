// `orrery evolve STUDY`: searches for an expression that decides better, by genetic programming or with a program of
// the user's that proposes.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <thread>

#include "experiments/base/run_folder.hpp"
#include "experiments/base/study_file.hpp"
#include "experiments/evolve/process_source.hpp"
#include "experiments/evolve/report.hpp"
#include "tools/orrery/commands.hpp"
#include "tools/orrery/interrupt.hpp"
#include "tools/orrery/progress.hpp"

namespace orrery::tools {
namespace {

namespace evolving = experiments::evolve;

struct EvolveOptions {
  std::string study, proposer, out;
  std::vector<std::string> assignments;
  std::size_t jobs = std::max(1U, std::thread::hardware_concurrency());
  bool json = false, quiet = false;
};

evolving::EvolveResult search(const Systems& systems, const evolving::EvolveStudy& study,
                              const EvolveOptions& options) {
  std::unique_ptr<evolving::Source> source;
  if (options.proposer.empty()) {
    source = evolving::genetic_source(study);
  } else {
    source = std::make_unique<evolving::ProcessSource>(study, options.proposer);
  }
  ProgressBar bar(options.quiet);
  const std::int64_t total = study.search.generations;
  return evolving::evolve(
      systems, study, *source,
      {.jobs = options.jobs,
       .progress = [&](std::int64_t generation,
                       std::int64_t) { bar.update({.done = generation, .total = total, .what = "generations"}); },
       .stop = [] { return g_interrupted != 0; }});
}

int evolve(const Systems& systems, const EvolveOptions& options) {
  const evolving::EvolveStudy study =
      evolving::read_evolve_study(experiments::named_document(options.study), options.assignments);
  std::unique_ptr<experiments::RunFolder> folder;
  if (!options.out.empty()) folder = std::make_unique<experiments::RunFolder>(options.out, false);
  watch_for_interrupts();
  const auto start = std::chrono::steady_clock::now();
  const evolving::EvolveResult result = search(systems, study, options);
  if (folder) {
    experiments::write_text(folder->working() / "evolve.json", evolving::result_node(study, result).dump(2) + "\n");
    experiments::write_text(folder->working() / "candidates.csv", evolving::candidates_csv(study, result));
    folder->commit();
  }
  if (options.json) {
    fmt::print("{}\n", evolving::result_node(study, result).dump(2));
  } else {
    fmt::print("{}", evolving::result_text(study, result));
  }
  if (!options.quiet) {
    const double wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print(stderr, "{} runs in {:.1f} s\n", result.runs, wall_s);
  }
  return 0;
}

}  // namespace

void add_evolve(CLI::App& app, Action& action) {
  auto options = std::make_shared<EvolveOptions>();
  CLI::App* command = app.add_subcommand("evolve", "Search for an expression that makes better decisions in a policy");
  command->add_option("STUDY", options->study, "File of kind \"evolve\"")->required();
  command
      ->add_option("--set", options->assignments,
                   "Change a value of the study: search.seed=2, base.workload.rate_scale=2 (may be repeated)")
      ->allow_extra_args(false);
  command->add_option("--proposer", options->proposer,
                      "Shell command of a program that proposes expressions (as JSON lines), in place of breeding");
  command->add_option("--jobs", options->jobs, "Parallel runs (default: number of cores); results do not depend on it")
      ->check(CLI::Range(1, 1024));
  command->add_option("--out", options->out, "Folder to create, with evolve.json and candidates.csv");
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--quiet", options->quiet, "Show no progress");
  command->callback(
      [options, &action] { action = [options](const Systems& systems) { return evolve(systems, *options); }; });
}

}  // namespace orrery::tools
