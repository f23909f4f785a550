#include "tools/orrery/explore_command.hpp"

#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>

#include "experiments/base/run_folder.hpp"
#include "experiments/base/study_file.hpp"
#include "experiments/study/explore.hpp"
#include "experiments/study/protocol.hpp"
#include "experiments/study/remote_runs.hpp"
#include "experiments/study/results.hpp"
#include "experiments/study/selected.hpp"
#include "tools/orrery/interrupt.hpp"
#include "tools/orrery/progress.hpp"
#include "tools/orrery/python_tool.hpp"

namespace orrery::tools {
namespace {

namespace fs = std::filesystem;
namespace study = experiments::study;

constexpr std::size_t kShown = 10;

/// The runs of points as `orrery evaluate-points` reads them.
void print_requests(const study::Study& one, std::span<const study::Point> points) {
  study::InputDigests digests;
  std::int64_t id = 0;
  fmt::print("{}\n", study::protocol_header(one).dump());
  for (const study::Point& point : points)
    for (std::int64_t seed = one.seeds.first; seed < one.seeds.first + one.seeds.count; ++seed) {
      study::PreparedRun run = study::prepare_run([&] { return one.read(one.config(point, 1, seed)); }, digests);
      study::become_text(run);
      if (!run.text.empty()) fmt::print("{}\n", study::protocol_request(++id, run));
    }
}

void print_points(const study::Study& one, const ExploreCommand& options) {
  std::size_t forbidden = 0;
  const std::vector<study::Point> points =
      options.search ? study::sample_points(one, false, kShown) : study::sweep_points(one, &forbidden);
  if (options.json) {
    print_requests(one, points);
  } else {
    for (const study::Point& point : points) fmt::print("{}\n", one.space.text(point));
  }
  if (options.quiet) return;
  if (forbidden > 0) fmt::print(stderr, "{} points more that the constraints leave out\n", forbidden);
  const std::int64_t seeds = one.seeds.count;
  if (options.search)
    fmt::print(stderr, "dry run: {} points of the space; a search with '{}' would look at {} x {}\n", points.size(),
               one.search.driver.name, one.search.repeats, one.search.budget);
  else
    fmt::print(stderr, "dry run: {} points, {} runs\n", points.size(), std::ssize(points) * seeds);
}

/// The process that hands runs on to a Dask cluster; workers run this very program.
std::vector<std::string> cluster_command(const ExploreCommand& options) {
  return python_command("orrery_cluster", {options.cluster, "--command", fs::read_symlink("/proc/self/exe").string(),
                                           "--build", options.any_build ? "" : experiments::build_id()});
}

}  // namespace

int explore_study(const study::Study& one, const ExploreCommand& options) {
  const fs::path out = options.out.empty() ? study::default_store(one, options.search) : fs::path(options.out);
  if (options.dry_run) {
    (void)study::check_explorable(one, options.search);
    print_points(one, options);
    return 0;
  }
  std::error_code ignored;
  if (options.resume && !fs::exists(out, ignored))
    sim::throw_fault({out.string(), ""}, "expected a store to go on with, found none", "leave --resume out to begin");
  if (options.force) study::Store::remove(out);
  watch_for_interrupts();
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error of the write, told as such
  study::ExploreOptions how{.search = options.search, .out = out, .jobs = options.jobs, .any_build = options.any_build};
  how.from.assign(options.from.begin(), options.from.end());
  how.stop = [] { return g_interrupted != 0; };
  std::optional<study::RemoteRuns> cluster;
  if (!options.cluster.empty()) {
    cluster.emplace(cluster_command(options), options.cluster, one, how.stop);
    how.executor = &*cluster;
  }
  study::ExploreResult result;
  {
    ProgressBar bar(options.quiet);
    how.progress = [&](std::int64_t done, std::optional<std::int64_t> total) {
      bar.update({.done = done, .total = total, .what = "points"});
    };
    result = study::explore(one, how);
  }
  if (!options.quiet) {
    for (const std::string& note : result.notes) fmt::print(stderr, "note: {}\n", note);
    if (result.forbidden > 0) fmt::print(stderr, "{} points that the constraints leave out\n", result.forbidden);
    if (result.was_complete) fmt::print(stderr, "{}: holds this very study already; reused\n", out.string());
  }
  if (result.interrupted) {
    fmt::print(stderr, "interrupted: {} points, and the runs done since, are in {}; the same command goes on\n",
               result.points, out.string());
    return kInterrupted;
  }
  const BestAnswer best = best_answer({&out, 1}, kShown, options.json);
  fmt::print("{}", best.text);
  if (!options.quiet) {
    const study::StoreCounts& counts = best.counts;
    if (counts.ok < counts.points) fmt::print(stderr, "the first without a result: {}\n", counts.first_reason);
    if (result.earlier > 0) fmt::print(stderr, "{} points of earlier stores\n", result.earlier);
    fmt::print(stderr, "{} points, {} of them known, {} runs; in {}\n", result.points, result.known, result.runs,
               out.string());
  }
  return 0;
}

namespace {

int explore(const Systems& systems, const ExploreCommand& options) {
  std::vector<std::string> assignments = options.assignments;
  if (options.seed)
    assignments.push_back(fmt::format("{}={}", options.search ? "search.seed" : "seeds.first", *options.seed));
  return explore_study(study::read_study(systems, experiments::named_document(options.file), assignments), options);
}

}  // namespace

BestAnswer best_answer(std::span<const fs::path> files, std::size_t top, bool json) {
  const study::BestPoints best = study::best_points(files, top);
  BestAnswer answer{.text = study::best_text(best), .counts = best.counts[0]};
  const auto selected = study::selected_of(files);
  if (json)
    answer.text = (selected ? study::selected_json(*selected) : study::best_json(best)).dump(2) + "\n";
  else if (selected)
    answer.text = study::selected_text(*selected);
  return answer;
}

void add_explore(CLI::App& app, Action& action, const char* name, const char* doc, bool search) {
  auto options = std::make_shared<ExploreCommand>();
  options->search = search;
  CLI::App* command = app.add_subcommand(name, doc);
  command->add_option("STUDY", options->file, "Study (JSON of \"kind\": \"study\")")->required();
  command->add_option("--set", options->assignments, "Change a value: base.a.b=value, search.budget=50 …")
      ->allow_extra_args(false);
  command->add_option("--out", options->out, "File of the store (default: runs/STUDY-HASH.sqlite)");
  if (search)
    command
        ->add_option(
            "--from", options->from,
            "Start from another store: take all points if it is of this study, else its best points as first guesses")
        ->allow_extra_args(false);
  command
      ->add_option("--seed", options->seed,
                   search ? "Seed of the driver (search.seed)" : "First seed of the runs (seeds.first)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--jobs", options->jobs, "Number of threads; rows do not depend on it")
      ->check(CLI::Range(1, 1024));
  command->add_option(
      "--cluster", options->cluster,
      "Address of a Dask scheduler whose workers execute the runs, tcp://HOST:PORT (docs/explain/clusters.md)");
  command->add_flag("--resume", options->resume, "Continue an existing store");
  command->add_flag("--force", options->force, "Replace the store if it exists");
  command->add_flag("--any-build", options->any_build, "Allow continuing a store that another build of orrery began");
  command->add_flag("--dry-run", options->dry_run,
                    "Print the points but run nothing (with --json: configs as evaluate-points reads them)");
  command->add_flag("--json", options->json, "Print JSON instead of a table");
  command->add_flag("--quiet", options->quiet, "Show no progress and no notes");
  command->callback(
      [options, &action] { action = [options](const Systems& systems) { return explore(systems, *options); }; });
}

}  // namespace orrery::tools
