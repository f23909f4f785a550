// Which constants are fitted to which tables. Bounds are of the search, not of what a file may hold.
#include "experiments/fidelity/calibration.hpp"

namespace orrery::experiments {

const std::vector<CalibrationBlock>& calibration_blocks() {
  static const std::vector<CalibrationBlock> blocks{
      {"gemm",
       "gpu",
       {"gemm"},
       {{"gemm.efficiency", 0.3, 1.1},
        {"gemm.fill_k", 4, 400},
        {"gemm.wave_smoothing", 0, 1},
        {"gemm.memory_efficiency", 0.4, 0.98},
        {"gemm.k_cycles", 0.5, 15},
        {"gemm.l2_delivery", 0.2, 4},
        {"gemm.multicast", 1, 4},
        {"gemm.fixed_cycles", 100, 8000},
        {"gemm.split_cycles", 100, 12000},
        {"gemm.l2_full", 0.02, 1},
        {"gemm.l2_none", 1.2, 2.5},
        {"gemm.peak_power", 0.3, 2}}},
  };
  return blocks;
}

}  // namespace orrery::experiments
