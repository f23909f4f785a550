// Fitting a residual (hw/cost/residual.hpp): what is left of a part's errors when its constants are fitted.
//
// A block is made of all rows of one kind of kernel that one library ran. The errors that are stated are of rows whose
// whole group was held out (weights of one size, heads of one model; TableKind::group_key): the groups are dealt into
// kFolds by a hash, and trees fitted to the others answer for each. The residual that is written is fitted to all rows.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/fidelity/boosted_trees.hpp"
#include "experiments/fidelity/part_shelf.hpp"
#include "sim/base/document.hpp"

namespace orrery::experiments {

inline constexpr int kFolds = 5;
/// Fewer rows of a kind and library make no block.
inline constexpr std::size_t kFewestRows = 200;

struct ResidualFitOptions {
  std::string device;          ///< a part of the catalog
  std::filesystem::path data;  ///< folder of measured tables
  std::size_t rows_per_table = 4000;
  BoostOptions boost;
};

struct ResidualFit {
  /// Errors of a table's rows, mean |predicted / measured - 1|: of the model, of the residual that was fitted to them,
  /// and of residuals that had not seen the row's group.
  struct Table {
    hw::ResidualKind kind = hw::ResidualKind::gemm;
    std::string library, name, metric;
    std::size_t rows = 0, groups = 0;
    double model = 0, fitted = 0, held_out = 0;
  };
  hw::Residual residual;
  std::vector<Table> tables;
  std::vector<std::string> notes;  ///< what was left out
};

/// Fits. Throws sim::ConfigError for a part or folder that is not there, or where no table measures the part.
ResidualFit fit_residual(const ResidualFitOptions& options, const PartShelf& parts);

/// The result for people.
std::string residual_text(const ResidualFit& fit);
/// {"part": ..., "tables": [{"kernels", "library", "table", "rows", "groups", "model", "fitted", "held_out"}]}.
sim::Node residual_report(const ResidualFit& fit);

}  // namespace orrery::experiments
