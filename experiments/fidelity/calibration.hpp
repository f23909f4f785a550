// Calibration: which constants of a part are fitted to which tables.
//
// A block is data: paths of constants in the part, and the kinds of table that judge them. `orrery calibrate` fits the
// blocks of a device one after another with the training rows and prints errors of training and held-out rows.
#pragma once

#include <string>
#include <vector>

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
};

/// All blocks, in the order in which they are fitted.
const std::vector<CalibrationBlock>& calibration_blocks();

}  // namespace orrery::experiments
