// Fidelity: what the shipped constants predict for measured tables, and how far off they are.
//
// A folder in the layout of the reference data (any subset) is walked; every CSV file is offered to the kinds of table
// (table_kind.hpp). Errors are fractions: e = predicted / measured - 1. MAPE is the mean of |e|, bias the mean of e.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "experiments/fidelity/residual_shelf.hpp"
#include "experiments/fidelity/table_kind.hpp"
#include "sim/base/document.hpp"

namespace orrery::experiments {

/// Errors of a group of rows, as fractions; all zero for no rows.
struct ErrorSummary {
  std::size_t rows = 0;
  double mape = 0, median = 0, p90 = 0, bias = 0;
};
/// Of e = predicted / measured - 1. Percentiles of |e| interpolate linearly.
ErrorSummary summarise_errors(std::vector<double> errors);

/// One line of the report: a metric of a table in one regime ("all" or a part of the rows).
struct FidelityLine {
  std::string table, metric, regime;
  std::size_t rows = 0, covered = 0;
  ErrorSummary errors;
  std::string reason;  ///< why rows are uncovered; empty where none is
};

/// Lines of one metric of predictions; `keep` says which rows count (empty: all).
std::vector<FidelityLine> fidelity_lines(const MeasuredTable& table, const Predictions::Column& column,
                                         std::span<const char> keep = {});

/// Names of the CSV files under `folder` that hold measured operators or runs, relative and sorted; traces and the like
/// are left out. Throws sim::ConfigError where the folder cannot be read or holds no table.
std::vector<std::string> measured_files(const std::filesystem::path& folder);

/// Every covered row of a metric, for plots and for whoever wants to look closer.
using PointSink = std::function<void(const MeasuredTable&, const Predictions::Column&)>;

/// Lines of every table of the folder. A file of no known kind is one line with `covered` 0 and a reason. `points` may
/// be empty. With `learned`, predictions are corrected by residuals where there are any.
std::vector<FidelityLine> measure_fidelity(const std::filesystem::path& folder, const PartShelf& parts,
                                           const PointSink& points = {}, const ResidualShelf* learned = nullptr);

/// A PointSink that appends `table,metric,row,measured,predicted,regimes` to `out` (regimes with ';' between them).
PointSink points_as_csv(std::ostream& out);

/// {"tables": [{"table", "metric", "regime", "rows", "covered", "mape", "median", "p90", "bias", "reason"}]}; the
/// errors of a line without covered rows are null.
sim::Node fidelity_json(std::span<const FidelityLine> lines);
/// The same for people, percentages.
std::string fidelity_text(std::span<const FidelityLine> lines);

}  // namespace orrery::experiments
