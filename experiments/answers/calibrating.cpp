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
  } else if (const std::size_t sign = text.find('='); sign != std::string::npos && sign > 0 && sign + 1 < text.size()) {
    fit.column = text.substr(0, sign);
    fit.values = sim::text_list(text.substr(sign + 1)).items;
  } else {
    sim::throw_fault({"--holdout", ""},
                     fmt::format("expected shapes, device=NAME, COLUMN=VALUE,... or none, got '{}'", text));
  }
}

/// Whether an earlier calibration wrote the file: then another may replace it under the default name.
bool is_calibrated(const fs::path& file) {
  std::ifstream in(file);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return text.find("fitted by `orrery calibrate") != std::string::npos ||
         text.find("Written by `orrery calibrate") != std::string::npos;
}

std::string default_file(const CalibrateParams& params) {
  if (!params.from_log.empty()) return fs::path(params.device).stem().string() + "-fitted.json";
  return params.device + (params.residual ? "-residual.json" : params.training ? "-training.json" : "-calibrated.json");
}

/// What the file holds. Constants from a log lie over the config that they are of.
sim::Node document_of(const Calibrated& made, const CalibrateParams& params) {
  if (const auto* fit = std::get_if<LogFit>(&made.result)) {
    sim::Node node = sim::Node::object();
    const fs::path folder = fs::absolute(made.file).parent_path();
    node.set("base", sim::Node::string(fs::absolute(params.device).lexically_relative(folder).generic_string()));
    sim::merge_over(node, fit->overrides);
    return node;
  }
  if (const auto* fit = std::get_if<ResidualFit>(&made.result)) return hw::residual_node(fit->residual);
  return std::get<CalibrationResult>(made.result).entry;
}

/// Options of one kind of fit that another does not have.
void check_params(const CalibrateParams& params) {
  sim::Faults faults;
  if (params.residual && params.training) faults.add({"--residual", ""}, "expected no --training beside it");
  if (params.residual && !params.holdout.empty() && params.holdout != "none")
    faults.add({"--holdout", ""}, "expected none beside --residual",
               "its errors are of groups of rows that were held out, always");
  if (params.residual && !params.blocks.empty())
    faults.add({"--block", ""}, "expected none beside --residual", "it fits a block to each kind of kernel");
  const bool log = !params.from_log.empty();
  if (log && (params.residual || params.training || !params.data.empty() || !params.blocks.empty()))
    faults.add({"--from-log", ""}, "expected no --data, --block, --residual or --training beside it");
  if (!log && params.data.empty()) faults.add({"--data", ""}, "expected a folder of measured tables, found none");
  if (!log && !params.constants.empty()) faults.add({"--constant", ""}, "expected none without --from-log");
  faults.throw_if_any();
}

}  // namespace

Calibrated calibrate_to_file(const CalibrateParams& params, const Systems& systems) {
  CalibrationOptions fit{.device = params.device,
                         .data = params.data,
                         .blocks = params.blocks,
                         .rows_per_table = static_cast<std::size_t>(params.rows)};
  check_params(params);
  read_hold_out(params.holdout, fit);
  const fs::path out = params.out.empty() ? default_file(params) : params.out;
  if (fs::exists(out) && !params.force && !(params.out.empty() && is_calibrated(out)))
    sim::throw_fault({out.string(), ""}, "stands already", "another --out, or --force to replace it");
  if (out.has_parent_path() && !fs::is_directory(out.parent_path()))
    sim::throw_fault({out.parent_path().string(), ""}, "expected a folder to write to, found none");
  const PartShelf parts(home_folder() / "hw/catalog");
  Calibrated made{{}, out.string()};
  if (!params.from_log.empty()) {
    made.result = fit_to_log({params.device, params.from_log, params.constants, {}}, systems);
  } else if (params.residual) {
    made.result = fit_residual({params.device, params.data, fit.rows_per_table, {}}, parts);
  } else {
    made.result = params.training ? calibrate_training(fit, parts) : calibrate(fit, parts);
  }
  std::ofstream file(out);
  file << document_of(made, params).dump(params.residual ? -1 : 2) << '\n';
  if (!file.flush()) sim::throw_fault({out.string(), ""}, "cannot be written");
  return made;
}

std::string calibrated_text(const Calibrated& made) {
  if (const auto* fit = std::get_if<LogFit>(&made.result)) return log_fit_text(*fit);
  if (const auto* fit = std::get_if<ResidualFit>(&made.result)) return residual_text(*fit);
  return calibration_text(std::get<CalibrationResult>(made.result));
}

sim::Node calibrated_json(const Calibrated& made) {
  if (const auto* fit = std::get_if<LogFit>(&made.result)) return log_fit_report(*fit);
  if (const auto* fit = std::get_if<ResidualFit>(&made.result)) return residual_report(*fit);
  return calibration_json(std::get<CalibrationResult>(made.result));
}

sim::Node calibrate_part(const CalibrateParams& params, const Systems& systems) {
  const Calibrated made = calibrate_to_file(params, systems);
  sim::Node node = calibrated_json(made);
  node.set("file", sim::Node::string(made.file));
  return node;
}

}  // namespace orrery::experiments
