// Constants of a training run fitted to a table of measured plans (`orrery calibrate --training`,
// docs/explain/training.md).
//
// What a run takes beside its kernels alone is three constants of a config's machine: the speed of kernels in the run,
// the speed of collectives beside them, and the host's time an operator. They are fitted to the iterations of at most a
// fifth of the rows; errors of the others are told apart.
#pragma once

#include "experiments/fidelity/calibration.hpp"

namespace orrery::experiments {

/// Names of the constants, as `CalibrationOptions::blocks` chooses them: "kernel", "overlapped", "host".
std::vector<std::string> training_constants();

/// Rows that are fitted: every fifth, from the first on; of a table of under 20, the first of each model.
std::vector<char> fitted_steps(const MeasuredTable& table);

/// Fits. The entry of the result is a part of a training config: section `machine` with the constants. A constant that
/// no fitted row depends on stays as it is, with a note. Throws sim::ConfigError for an unknown device or constant,
/// where no table of it is there, and where rows are fewer than constants.
CalibrationResult calibrate_training(const CalibrationOptions& options, const PartShelf& parts);

}  // namespace orrery::experiments
