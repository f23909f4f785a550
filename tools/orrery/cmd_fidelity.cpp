// `orrery fidelity DIR`: errors of the shipped constants against the measured tables of a folder.
#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "experiments/base/run_folder.hpp"
#include "experiments/fidelity/served_errors.hpp"
#include "tools/orrery/commands.hpp"
#include "tools/orrery/python_tool.hpp"

namespace orrery::tools {
namespace {

namespace fs = std::filesystem;

struct FidelityOptions {
  std::string folder, points, png, served;
  std::vector<std::string> residuals;
  bool json = false, learned = false;
};

int fidelity(const FidelityOptions& options) {
  const experiments::PartShelf parts(experiments::home_folder() / "hw/catalog");
  const bool scratch = options.points.empty() && !options.png.empty();
  const fs::path file = scratch ? fs::path(options.png) / "points.csv" : fs::path(options.points);
  std::ofstream points;
  if (!file.empty()) {
    std::error_code ignored;
    if (scratch) fs::create_directories(options.png, ignored);
    points.open(file);
    if (!points) sim::throw_fault({file.string(), ""}, "cannot be written");
  }
  const experiments::PointSink as_csv =
      points.is_open() ? experiments::points_as_csv(points) : experiments::PointSink();
  std::optional<experiments::ResidualShelf> learned;
  if (options.learned || !options.residuals.empty())
    learned.emplace(experiments::home_folder() / "hw/catalog/residuals", options.residuals);
  experiments::ServedErrors served;
  const auto sink = [&](const experiments::MeasuredTable& table, const auto& column) {
    served.add(table, column);
    if (as_csv) as_csv(table, column);
  };
  const auto lines = experiments::measure_fidelity(options.folder, parts, sink, learned ? &*learned : nullptr);
  points.close();
  if (!options.served.empty()) experiments::write_text(options.served, served.node().dump(2) + "\n");
  if (options.json) {
    fmt::print("{}\n", experiments::fidelity_json(lines).dump(2));
  } else {
    fmt::print("{}", experiments::fidelity_text(lines));
  }
  if (options.png.empty()) return 0;
  std::fflush(stdout);
  const int code = run_python_tool("orrery_fidelity", {file.string(), "--png", options.png});
  if (scratch) fs::remove(file);
  return code;
}

}  // namespace

void add_fidelity(CLI::App& app, Action& action) {
  auto options = std::make_shared<FidelityOptions>();
  CLI::App* command =
      app.add_subcommand("fidelity", "Compare the predictions of the catalog's parts with measured tables");
  command->add_option("DIR", options->folder, "Folder of tables: gemm/, attention/, collectives/ … (docs/fidelity.md)")
      ->required();
  command->add_flag("--json", options->json, "Print JSON; errors are fractions");
  command->add_option("--points", options->points, "CSV file to write, with every row, measured and predicted");
  command->add_option(
      "--served", options->served,
      "JSON file to write, with errors of serving runs by part, engine and kind of model (as `run` reports them)");
  command->add_flag("--learned", options->learned,
                    "Correct predictions with the catalog's residuals (cost model `learned`)");
  command->add_option(
      "--residual", options->residuals,
      "Residuals of `orrery calibrate PART --residual`, used before those of the catalog; implies --learned");
  command->add_option("--png", options->png,
                      "Folder for plots of predicted against measured values, one per folder of tables");
  command->callback([options, &action] { action = [options](const Systems&) { return fidelity(*options); }; });
}

}  // namespace orrery::tools
