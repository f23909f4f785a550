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
      {"link",
       "gpu",
       {"collectives"},
       {{"link.ring.base", 1e-6, 30e-6},
        {"link.ring.ramp", 0.1e-6, 20e-6},
        {"link.ring.ll_step", 0.1e-6, 10e-6},
        {"link.ring.ll_efficiency", 0.05, 1},
        {"link.ring.ll128_step", 0.3e-6, 30e-6},
        {"link.ring.ll128_efficiency", 0.05, 1},
        {"link.ring.simple_start", 0.1e-6, 60e-6},
        {"link.ring.simple_step", 0.3e-6, 30e-6},
        {"link.ring.simple_efficiency", 0.05, 1},
        {"link.ring.local_ratio", 0.3, 10},
        {"link.in_switch.chunk", 0.01e-6, 100e-6},
        {"link.in_switch.efficiency", 0.05, 1},
        {"link.peer.base", 1e-6, 30e-6},
        {"link.peer.ramp", 0.1e-6, 30e-6},
        {"link.peer.chunk", 0.001e-6, 10e-6},
        {"link.peer.efficiency", 0.05, 1},
        {"link.peer.send_base", 0.1e-6, 30e-6},
        {"link.peer.send_ramp", 0.1e-6, 30e-6}}},
  };
  return blocks;
}

}  // namespace orrery::experiments
