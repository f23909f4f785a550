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
      {"attention",
       "gpu",
       {"attention", "edge_attention"},
       {{"attention.efficiency", 0.3, 0.98},
        {"attention.softmax_per_cycle", 4, 400},
        {"attention.start_cycles", 200, 12000},
        {"attention.row_cycles", 0, 80},
        {"attention.block_cycles", 0, 5000},
        {"attention.tail", 0, 2},
        {"attention.memory_efficiency", 0.4, 1},
        {"attention.l2_delivery", 0.2, 4},
        {"attention.resident_share", 0.1, 1.3},
        {"attention.fixed", 1e-6, 20e-6},
        {"attention.combine", 0, 12e-6},
        {"attention.combine_split", 0, 1e-6},
        {"attention.regroup", 0, 4e-6},
        {"attention.sequence", 0, 40e-9},
        {"attention.cache_write", 0.2, 0.95},
        {"attention.cache_token", 0, 15e-9}},
       {"time"}},
  };
  return blocks;
}

}  // namespace orrery::experiments
