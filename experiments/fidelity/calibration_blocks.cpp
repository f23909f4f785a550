// Which constants are fitted to which tables. Bounds are of the search, not of what a file may hold.
#include "experiments/fidelity/calibration.hpp"

namespace orrery::experiments {

const std::vector<CalibrationBlock>& calibration_blocks() {
  static const std::vector<CalibrationBlock> blocks{
      {"gemm",
       "gpu",
       {"gemm"},
       {{"gemm.efficiency", 0.3, 0.98},
        {"gemm.fill_k", 4, 400},
        {"gemm.wave_smoothing", 0, 1},
        {"gemm.memory_efficiency", 0.4, 0.98},
        {"gemm.cta_bandwidth", 20e9, 400e9},
        {"gemm.l2_delivery", 0.2, 4},
        {"gemm.fixed", 0.2e-6, 10e-6},
        {"gemm.split", 0.1e-6, 10e-6}}},
  };
  return blocks;
}

}  // namespace orrery::experiments
