#include "experiments/answers/calibrating.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "experiments/fidelity/training_calibration.hpp"

namespace orrery::experiments {
namespace {

namespace fs = std::filesystem;

void read_hold_out(const std::string& text, CalibrationOptions& fit) {
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
  return text.find("fitted by `orrery calibrate") != std::string::npos;
}

}  // namespace

Calibrated calibrate_to_file(const CalibrateParams& params) {
  CalibrationOptions fit{.device = params.device,
                         .data = params.data,
                         .blocks = params.blocks,
                         .rows_per_table = static_cast<std::size_t>(params.rows)};
  read_hold_out(params.holdout, fit);
  const fs::path out =
      params.out.empty() ? params.device + (params.training ? "-training.json" : "-calibrated.json") : params.out;
  if (fs::exists(out) && !params.force && !(params.out.empty() && is_calibrated(out)))
    sim::throw_fault({out.string(), ""}, "stands already", "another --out, or --force to replace it");
  if (out.has_parent_path() && !fs::is_directory(out.parent_path()))
    sim::throw_fault({out.parent_path().string(), ""}, "expected a folder to write to, found none");
  const PartShelf parts(home_folder() / "hw/catalog");
  Calibrated made{params.training ? calibrate_training(fit, parts) : calibrate(fit, parts), out.string()};
  std::ofstream file(out);
  file << made.result.entry.dump(2) << '\n';
  if (!file.flush()) sim::throw_fault({out.string(), ""}, "cannot be written");
  return made;
}

sim::Node calibrate_part(const CalibrateParams& params, const Asking&) {
  const Calibrated made = calibrate_to_file(params);
  sim::Node node = calibration_json(made.result);
  node.set("file", sim::Node::string(made.file));
  return node;
}

}  // namespace orrery::experiments
