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
      {"upmem",
       "upmem",
       {"pim"},
       {{"bank_conflict", 0, 1},
        {"launch", 20e-6, 1e-3},
        {"symbol_fixed", 5e-6, 1e-3},
        {"symbol_bandwidth", 1e6, 1e9},
        {"host_cache", 1e6, 64e6},
        {"to_dpu.fixed", 5e-6, 1e-3},
        {"to_dpu.lane_bandwidth", 50e6, 10e9},
        {"to_dpu.host_bandwidth", 1e9, 100e9},
        {"to_dpu.cold_bandwidth", 50e6, 10e9},
        {"to_dpu.serial_fixed", 5e-6, 1e-3},
        {"from_dpu.fixed", 5e-6, 1e-3},
        {"from_dpu.lane_bandwidth", 10e6, 10e9},
        {"from_dpu.host_bandwidth", 0.5e9, 100e9},
        {"from_dpu.serial_fixed", 5e-6, 1e-3},
        {"from_dpu.serial_bandwidth", 10e6, 10e9}}},
  };
  return blocks;
}

}  // namespace orrery::experiments
