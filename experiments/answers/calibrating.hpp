// Fitting a part, or a training run on it, to measured tables, and what was found as a file
// (docs/explain/calibration.md).
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "experiments/answers/answer.hpp"
#include "experiments/fidelity/calibration.hpp"
#include "experiments/fidelity/log_fit.hpp"
#include "experiments/fidelity/residual_fit.hpp"

namespace orrery::experiments {

struct CalibrateParams {
  std::string device, data, holdout, out;
  std::string from_log;
  std::vector<std::string> blocks, constants;
  std::int64_t rows = 4000;
  bool training = false, residual = false, force = false;
  static constexpr auto fields() {
    using P = CalibrateParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("device", &P::device, Unit::text, sim::any_value(),
                                 "Part from the catalog; with `from_log`, the config of the run.")),
        sim::field("data", &P::data, Unit::path, sim::any_value(), "Folder of measured tables."),
        sim::field(
            "from_log", &P::from_log, Unit::path, sim::any_value(),
            "Request log of a running engine; `constants` of the config are then fitted to it, in place of a part."),
        sim::field("constants", &P::constants, Unit::text, sim::any_value(),
                   "Up to three numbers of the config to fit, PATH or PATH=MIN:MAX."),
        sim::field("holdout", &P::holdout, Unit::text, sim::any_value(),
                   "Rows held out from the fit: shapes (two fifths, by hash), device=NAME (constants from its family), "
                   "COLUMN=VALUE,... (rows), or none."),
        sim::field("out", &P::out, Unit::path, sim::any_value(),
                   "File to write; empty: DEVICE-calibrated.json (DEVICE-training.json, DEVICE-residual.json, "
                   "CONFIG-fitted.json)."),
        sim::field("blocks", &P::blocks, Unit::text, sim::any_value(),
                   "Blocks of constants to fit (gemm, attention …); empty: all that have tables."),
        sim::field("rows", &P::rows, Unit::count, sim::between(1, 1e9), "Most rows per table used in the fit."),
        sim::field("training", &P::training,
                   "Whether to fit constants of a training run to tables of measured plans, and write a part of a "
                   "config in place of a catalog entry."),
        sim::field("residual", &P::residual,
                   "Whether to fit trees to the remaining errors of the cost model, and write a residual for cost "
                   "model `learned` in place of a catalog entry."),
        sim::field("force", &P::force, "Whether to replace the file that `out` names.")};
  }
};

/// One of them was asked for.
struct Calibrated {
  std::variant<CalibrationResult, ResidualFit, LogFit> result;
  std::string file;  ///< that holds the entry or the residual
};

/// Fits and writes the entry. Throws sim::ConfigError.
Calibrated calibrate_to_file(const CalibrateParams& params, const Systems& systems);
/// What was found, for people and as JSON.
std::string calibrated_text(const Calibrated& made);
sim::Node calibrated_json(const Calibrated& made);
/// The same as JSON, with `file`.
sim::Node calibrate_part(const CalibrateParams& params, const Systems& systems);

}  // namespace orrery::experiments
