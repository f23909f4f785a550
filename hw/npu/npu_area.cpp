#include <algorithm>

#include "hw/gpu/area.hpp"
#include "hw/npu/npu.hpp"

namespace orrery::hw {

AreaEstimate estimate_area(const NpuParams& npu, const ProcessParams& process, const AreaConstants& c) {
  const Scratchpads& pads = npu.scratch;
  const double rate = std::max(matrix_rate(npu.matrix, DType::fp16), matrix_rate(npu.matrix, DType::bf16));
  return estimate_area(
      Chip{.die = npu.die,
           .cores = npu.cores,
           .lanes = static_cast<double>(npu.vector.bytes_per_cycle) / 4,
           .macs = cells(npu.matrix) * static_cast<double>(npu.matrix.per_core) * rate,
           .core_bytes = static_cast<double>(pads.l1 + pads.left + pads.right + pads.accumulator + pads.unified),
           .l2_bytes = static_cast<double>(npu.l2_bytes),
           .memory_bytes = static_cast<double>(npu.memory_bytes),
           .memory_bandwidth = npu.memory_bandwidth,
           .link_bandwidth = npu.link.bandwidth},
      process, c);
}

}  // namespace orrery::hw
