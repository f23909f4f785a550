// Calibration: which constants of a part are fitted to which tables, and the fit.
//
// A block is data: paths of constants in the part, and the kinds of table that judge them. `orrery calibrate` fits the
// blocks of a device one after another (later ones see what earlier ones found) and prints errors of the rows that were
// fitted and of those that were not. Rows are held out by a hash of their shape, since shapes repeat within a table, or
// a whole device is: then the constants come from the other devices of its family, and its own entry gives facts only.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/fidelity/fidelity.hpp"
#include "experiments/fidelity/fit.hpp"

namespace orrery::experiments {

struct CalibrationBlock {
  std::string name;       ///< "gemm"
  std::string part_kind;  ///< "gpu"
  std::vector<std::string> table_kinds;
  struct Constant {
    std::string path;
    double min = 0, max = 0;  ///< bounds of the search, SI
  };
  std::vector<Constant> constants;
  std::vector<std::string> metrics = {};  ///< columns that are fitted; empty: all
  std::vector<std::string> regimes = {};  ///< rows of these sub-regimes are fitted; empty: all
  /// Fitted to the part's own tables alone: nothing of it is handed on to a part that is held out.
  bool own_part = false;
};

/// All blocks, in the order in which they are fitted.
const std::vector<CalibrationBlock>& calibration_blocks();

struct CalibrationOptions {
  std::string device;                   ///< a part of the catalog
  std::filesystem::path data;           ///< folder of measured tables
  bool hold_out_shapes = false;         ///< two fifths of the shapes, by hash
  std::optional<std::string> hold_out;  ///< a device that no row of is fitted
  std::string column;                   ///< of tables: rows with one of `values` in it are held out; empty: none
  std::vector<std::string> values;
  std::vector<std::string> blocks;    ///< names; empty: all that have tables
  std::size_t rows_per_table = 4000;  ///< rows fitted at most, spread evenly
  FitOptions fit;
};

struct CalibrationResult {
  struct Block {
    std::string name;
    std::vector<std::string> fitted_parts, tables;
    std::vector<FitConstant> constants;
    FitResult fit;
    std::size_t rows = 0;
  };
  struct Error {
    std::string role;  ///< "before" (the fit), "fitted", "held out"
    FidelityLine line;
  };
  std::vector<Block> blocks;
  std::vector<Error> errors;
  std::vector<std::string> notes;  ///< which rows were fitted, what could not be
  sim::Node entry;                 ///< the device's catalog entry with the fitted constants and their provenance
};

/// Whether rows of this shape are held out: two fifths of all keys, whatever the table.
bool is_held_out(std::string_view shape_key);

/// Fits. Throws sim::ConfigError for a device, block or folder that is not there, or where no table is left to fit.
CalibrationResult calibrate(const CalibrationOptions& options, PartShelf parts);

/// The result for people: constants with what they were, errors by table and regime.
std::string calibration_text(const CalibrationResult& result);
/// {"blocks": [...], "tables": [... as fidelity's, with "role"]}.
sim::Node calibration_json(const CalibrationResult& result);

}  // namespace orrery::experiments
