// `orrery calibrate DEVICE --data DIR`: fits the constants of a part to measured tables and writes a catalog entry.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "experiments/experiment.hpp"
#include "experiments/fidelity/calibration.hpp"
#include "tools/orrery/commands.hpp"

namespace orrery::tools {
namespace {

namespace fs = std::filesystem;

struct Options {
  experiments::CalibrationOptions fit;
  std::string data, hold_out, out;
  bool json = false, force = false;
};

void read_hold_out(const std::string& text, experiments::CalibrationOptions& fit) {
  constexpr std::string_view kDevice = "device=";
  if (text.empty() || text == "none") return;
  if (text == "shapes") {
    fit.hold_out_shapes = true;
  } else if (text.starts_with(kDevice) && text.size() > kDevice.size()) {
    fit.hold_out = text.substr(kDevice.size());
  } else {
    sim::throw_fault({"--holdout", ""}, fmt::format("expected shapes, device=NAME or none, got '{}'", text));
  }
}

/// Whether an earlier calibration wrote the file: then another may replace it under the default name.
bool is_calibrated(const fs::path& file) {
  std::ifstream in(file);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return text.find("fitted by `orrery calibrate`") != std::string::npos;
}

int calibrate(Options options) {
  read_hold_out(options.hold_out, options.fit);
  options.fit.data = options.data;
  const fs::path out = options.out.empty() ? options.fit.device + "-calibrated.json" : options.out;
  if (fs::exists(out) && !options.force && !(options.out.empty() && is_calibrated(out)))
    sim::throw_fault({out.string(), ""}, "stands already", "another --out, or --force to replace it");
  if (out.has_parent_path() && !fs::is_directory(out.parent_path()))
    sim::throw_fault({out.parent_path().string(), ""}, "expected a folder to write to, found none");
  const experiments::PartShelf parts(experiments::home_folder() / "hw/catalog");
  const experiments::CalibrationResult result = experiments::calibrate(options.fit, parts);
  if (options.json) {
    fmt::print("{}\n", experiments::calibration_json(result).dump(2));
  } else {
    fmt::print("{}", experiments::calibration_text(result));
  }
  std::ofstream file(out);
  file << result.entry.dump(2) << '\n';
  if (!file.flush()) sim::throw_fault({out.string(), ""}, "cannot be written");
  fmt::print(stderr, "wrote {}\n", out.string());
  return 0;
}

}  // namespace

void add_calibrate(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("calibrate", "Fit the constants of a part to measured tables");
  command->add_option("DEVICE", options->fit.device, "A part of the catalog")->required();
  command->add_option("--data", options->data, "Folder of measured tables")->required();
  command->add_option("--holdout", options->hold_out,
                      "shapes (two fifths, by hash), device=NAME (constants from its family), or none");
  command->add_option("--block", options->fit.blocks, "Only these blocks of constants (gemm, attention …)");
  command->add_option("--rows", options->fit.rows_per_table, "Most rows of a table that are fitted")
      ->check(CLI::PositiveNumber);
  command->add_option("--out", options->out, "Catalog entry to write (DEVICE-calibrated.json)");
  command->add_flag("--json", options->json, "As JSON; errors are fractions");
  command->add_flag("--force", options->force, "Replace the file that --out names");
  command->callback([options, &action] { action = [options] { return calibrate(*options); }; });
}

}  // namespace orrery::tools
