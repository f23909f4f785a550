// `orrery reproduce [STUDY…]`: what papers claim against what the simulation gives.
#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>

#include "experiments/answers/reproducing.hpp"
#include "tools/orrery/commands.hpp"
#include "tools/orrery/progress.hpp"
#include "tools/orrery/python_tool.hpp"

namespace orrery::tools {
namespace {

namespace claims = experiments::claims;
namespace fs = std::filesystem;

struct ReproduceOptions {
  experiments::ReproduceParams params;
  std::string png;
  bool json = false, quiet = false;
};

/// Plots of the points, from files beside them that go again.
int draw(const std::vector<claims::JudgedStudy>& judged, const fs::path& folder) {
  const fs::path points = folder / "points.csv", verdicts = folder / "claims.json";
  {
    std::ofstream file = experiments::writable_file(points);
    claims::write_points(judged, file);
    experiments::writable_file(verdicts) << claims::claims_json(judged).dump(2) << '\n';
  }
  std::fflush(stdout);
  const int code = run_python_tool("orrery_claims", {points.string(), verdicts.string(), "--png", folder.string()});
  fs::remove(points);
  fs::remove(verdicts);
  return code;
}

int reproduce(const Systems& systems, const ReproduceOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  std::int64_t runs = 0;
  std::vector<claims::JudgedStudy> judged;
  std::vector<claims::Sensitivity> parameters;
  {
    ProgressBar bar(options.quiet);
    const experiments::Asking asking{.progress = [&](const experiments::Progress& progress) {
      runs = progress.total.value_or(0);
      bar.update(progress);
    }};
    if (options.params.sensitivity)
      parameters = experiments::claim_sensitivity(systems, options.params, asking);
    else
      judged = experiments::reproduce_claims(systems, options.params, asking);
  }
  if (options.params.sensitivity && options.json) {
    fmt::print("{}\n", claims::sensitivity_json(parameters).dump(2));
  } else if (options.params.sensitivity) {
    fmt::print("{}", claims::sensitivity_text(parameters));
  } else if (options.json) {
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
  CLI::App* command =
      app.add_subcommand("reproduce", "Run claim studies and compare what papers claim with what comes out");
  command->add_option("STUDY", options->params.studies,
                      "Names of built-in studies, or files (default: all built-in ones)");
  command->add_option("--set", options->params.set, "Change a value of every study: base.run.seed=2 (may be repeated)")
      ->allow_extra_args(false);
  command
      ->add_option("--jobs", options->params.jobs,
                   "Parallel runs (default: number of cores); results do not depend on it")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", options->json, "Print JSON");
  auto* sensitivity =
      command->add_flag("--sensitivity", options->params.sensitivity,
                        "Instead, judge the claims while varying the parameters that studies name as chosen");
  command
      ->add_option("--points", options->params.points,
                   "CSV file to write, with the figures at every point of every study")
      ->excludes(sensitivity);
  command->add_option("--png", options->png, "Folder for plots, one per study")->excludes(sensitivity);
  command->add_flag("--quiet", options->quiet, "Show no progress");
  command->callback(
      [options, &action] { action = [options](const Systems& systems) { return reproduce(systems, *options); }; });
}

}  // namespace orrery::tools
