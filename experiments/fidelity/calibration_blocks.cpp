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
      {"stream",
       "gpu",
       {"elementwise"},
       {{"stream.share", 0.4, 1},
        {"stream.l2_share", 0.1, 1.5},
        {"stream.l2_reach", 0.1, 3},
        {"stream.latency", 0.02e-6, 1e-6},
        {"stream.miss_latency", 0.02e-6, 1.5e-6},
        {"stream.fixed", 0, 3e-6}}},
      {"moe",
       "gpu",
       {"moe"},
       {{"moe.efficiency", 0.3, 0.8},
        {"moe.memory_efficiency", 0.4, 0.98},
        {"moe.cta_bandwidth", 10e9, 200e9},
        {"moe.block_start", 0.2e-6, 8e-6},
        {"moe.l2_delivery", 0.2, 4},
        {"moe.l2_reach", 0.05, 2},
        {"moe.unaligned_rate", 0.3, 20},
        {"moe.combine_share", 0.1, 1},
        {"moe.sort", 1e-6, 40e-6},
        {"moe.remote", 0, 40e-6}}},
  };
  return blocks;
}

}  // namespace orrery::experiments
