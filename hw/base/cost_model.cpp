#include "hw/base/cost_model.hpp"

#include <algorithm>

namespace orrery::hw {

Cost booked(const PowerParams& power, const Work& work, const CostParts& parts) {
  Cost cost;
  cost.time_s = parts.time_s;
  cost.flops = work.flops;
  cost.dram_bytes = std::max(parts.dram_bytes, work.read_bytes + work.write_bytes);
  cost.compute_energy_j = work.flops * parts.flop_j + power.active_w * cost.time_s;
  cost.memory_energy_j = cost.dram_bytes * power.memory_byte_j;
  cost.bound = parts.fixed_s > std::max(parts.compute_s, parts.memory_s) ? Bound::launch
               : parts.compute_s > parts.memory_s                        ? Bound::compute
                                                                         : Bound::memory;
  return cost;
}

}  // namespace orrery::hw
