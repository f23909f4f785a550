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
                                 "A part of the catalog; with `from_log`, the config of the run.")),
        sim::field("data", &P::data, Unit::path, sim::any_value(), "Folder of measured tables."),
        sim::field(
            "from_log", &P::from_log, Unit::path, sim::any_value(),
            "Log of requests of a running engine, to which `constants` of the config are fitted in place of a part."),
        sim::field("constants", &P::constants, Unit::text, sim::any_value(),
                   "Up to three numbers of the config, PATH or PATH=MIN:MAX."),
        sim::field("holdout", &P::holdout, Unit::text, sim::any_value(),
                   "shapes (two fifths, by hash), device=NAME (constants from its family), COLUMN=VALUE,... (rows), "
                   "or none."),
        sim::field("out", &P::out, Unit::path, sim::any_value(),
                   "File to write; empty: DEVICE-calibrated.json (DEVICE-training.json, DEVICE-residual.json, "
                   "CONFIG-fitted.json)."),
        sim::field("blocks", &P::blocks, Unit::text, sim::any_value(),
                   "Only these blocks of constants (gemm, attention …); none: all that have tables."),
        sim::field("rows", &P::rows, Unit::count, sim::between(1, 1e9), "Most rows of a table that are fitted."),
        sim::field("training", &P::training,
                   "Whether constants of a training run are fitted to tables of measured plans, and a part of a "
                   "config is written in place of a catalog entry."),
        sim::field("residual", &P::residual,
                   "Whether trees are fitted to what is left of the model's errors, and a residual of cost model "
                   "`learned` is written in place of a catalog entry."),
        sim::field("force", &P::force, "Whether the file that `out` names is replaced.")};
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
