// `orrery analyse STORE…`: what the points of studies tell (docs/explain/analysis.md).
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "experiments/study/analysis.hpp"
#include "tools/orrery/commands.hpp"
#include "tools/orrery/python_tool.hpp"

namespace orrery::tools {
namespace {

namespace fs = std::filesystem;
namespace study = experiments::study;

struct AnalyseOptions {
  std::vector<std::string> files, objectives;
  std::string png;
  std::size_t top = 12;
  bool json = false, points = false;
};

/// Leaves the figures in a folder.
int draw(const Systems& systems, const study::StudyAnalysis& analysis, const fs::path& folder) {
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  const fs::path data = folder / "analysis.json";
  std::ofstream file(data, std::ios::binary);
  file << study::study_analysis_json(analysis, &systems).dump() << '\n';
  file.close();
  if (!file) sim::throw_fault({data.string(), ""}, "cannot be written");
  const int code = run_python_tool("orrery_study", {data.string(), "--png", folder.string()});
  fs::remove(data, ignored);
  return code;
}

int analyse(const Systems& systems, const AnalyseOptions& options) {
  const std::vector<fs::path> files(options.files.begin(), options.files.end());
  const study::StudyAnalysis analysis = study::analyse_stores(files, options.objectives);
  std::cout << (options.json ? study::study_analysis_json(analysis, options.points ? &systems : nullptr)
                                       .dump(options.points ? -1 : 2) +
                                   "\n"
                             : study::study_analysis_text(analysis, options.top));
  std::cout.flush();
  return options.png.empty() ? 0 : draw(systems, analysis, options.png);
}

}  // namespace

void add_analyse(CLI::App& app, Action& action) {
  auto options = std::make_shared<AnalyseOptions>();
  CLI::App* command = app.add_subcommand(
      "analyse", "Show Pareto fronts, search progress and parameter importance from stores of studies");
  command->add_option("STORE", options->files, "Stores written by sweep and search, with the same objectives")
      ->required();
  command
      ->add_option("--objective", options->objectives, "Consider this objective only (may be repeated; default: all)")
      ->allow_extra_args(false);
  command->add_option("--top", options->top, "Number of rows per table")->check(CLI::PositiveNumber);
  command->add_option("--png", options->png, "Folder for PNG plots");
  CLI::Option* json = command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--points", options->points, "With --json: every point too, and what it sets in which config")
      ->needs(json);
  command->callback(
      [options, &action] { action = [options](const Systems& systems) { return analyse(systems, *options); }; });
}

}  // namespace orrery::tools
