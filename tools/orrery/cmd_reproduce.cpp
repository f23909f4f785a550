// `orrery reproduce [STUDY…]`: what papers claim against what the simulation gives.
#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "experiments/claims/report.hpp"
#include "tools/orrery/commands.hpp"
#include "tools/orrery/progress.hpp"
#include "tools/orrery/python_tool.hpp"

namespace orrery::tools {
namespace {

namespace claims = experiments::claims;
namespace fs = std::filesystem;

struct ReproduceOptions {
  std::vector<std::string> studies, assignments;
  std::string points, png;
  std::size_t jobs = std::max(1U, std::thread::hardware_concurrency());
  bool json = false, quiet = false;
};

/// All faults of all studies at once.
std::vector<claims::ClaimStudy> read_studies(const ReproduceOptions& options) {
  std::vector<fs::path> files;
  for (const std::string& argument : options.studies) files.push_back(claims::study_file(argument));
  if (files.empty()) files = claims::shipped_studies();
  if (files.empty())
    sim::throw_fault({(experiments::home_folder() / "experiments/studies").string(), ""},
                     "expected files of \"kind\": \"claim\", found none", "set ORRERY_HOME to the source tree");
  std::vector<claims::ClaimStudy> studies;
  sim::Faults faults;
  for (const fs::path& file : files) {
    try {
      studies.push_back(claims::read_study(file, options.assignments));
    } catch (const sim::ConfigError& error) {
      for (const sim::Fault& fault : error.faults()) faults.add(fault.where, fault.message, fault.hint);
    }
  }
  faults.throw_if_any();
  return studies;
}

std::ofstream writable(const fs::path& path) {
  std::error_code ignored;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), ignored);
  std::ofstream file(path, std::ios::binary);
  if (!file) sim::throw_fault({path.string(), ""}, "cannot be written");
  return file;
}

/// Plots of the points, from files beside them that go again.
int draw(const std::vector<claims::JudgedStudy>& judged, const fs::path& folder) {
  const fs::path points = folder / "points.csv", verdicts = folder / "claims.json";
  {
    std::ofstream file = writable(points);
    claims::write_points(judged, file);
    writable(verdicts) << claims::claims_json(judged).dump(2) << '\n';
  }
  std::fflush(stdout);
  const int code = run_python_tool("orrery_claims", {points.string(), verdicts.string(), "--png", folder.string()});
  fs::remove(points);
  fs::remove(verdicts);
  return code;
}

int reproduce(const ReproduceOptions& options) {
  std::vector<claims::ClaimStudy> studies = read_studies(options);
  std::ofstream points;
  if (!options.points.empty()) points = writable(options.points);
  const auto start = std::chrono::steady_clock::now();
  std::int64_t runs = 0;
  std::vector<claims::StudyResult> results;
  {
    ProgressBar bar(options.quiet);
    results = claims::run_studies(std::move(studies),
                                  {.jobs = options.jobs, .progress = [&](std::int64_t done, std::int64_t total) {
                                     runs = total;
                                     bar.update({.done = done, .total = total, .what = "runs"});
                                   }});
  }
  const auto judged = claims::judge_studies(std::move(results));
  if (points.is_open()) claims::write_points(judged, points);
  if (options.json) {
    fmt::print("{}\n", claims::claims_json(judged).dump(2));
  } else {
    fmt::print("{}", claims::claims_text(judged));
  }
  if (!options.quiet) {
    const double wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print(stderr, "{} runs in {:.1f} s\n", runs, wall_s);
  }
  return options.png.empty() ? 0 : draw(judged, options.png);
}

}  // namespace

void add_reproduce(CLI::App& app, Action& action) {
  auto options = std::make_shared<ReproduceOptions>();
  CLI::App* command = app.add_subcommand("reproduce", "Run claim studies: what papers claim, and what comes out");
  command->add_option("STUDY", options->studies, "Names of studies that ship, or files (default: all that ship)");
  command->add_option("--set", options->assignments, "Change a value of every study: base.run.seed=2 (may be repeated)")
      ->allow_extra_args(false);
  command->add_option("--jobs", options->jobs, "Runs at a time (default: as many as cores); changes no result")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", options->json, "As JSON");
  command->add_option("--points", options->points, "CSV file for the figures at every point of every study");
  command->add_option("--png", options->png, "Folder for plots, one a study");
  command->add_flag("--quiet", options->quiet, "No progress");
  command->callback([options, &action] { action = [options] { return reproduce(*options); }; });
}

}  // namespace orrery::tools
