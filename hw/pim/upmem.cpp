#include "hw/pim/upmem.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::hw {

void UpmemParams::check(const UpmemParams& upmem, const sim::Node& fields, sim::Faults& faults) {
  if (upmem.tasklets > upmem.max_tasklets)
    faults.add(fields.origin(),
               fmt::format("programs use {} tasklets, and a DPU has {}", upmem.tasklets, upmem.max_tasklets));
  if (upmem.issue_gap > upmem.pipeline_stages)
    faults.add(fields.origin(), fmt::format("issue_gap {} is longer than a pipeline of {} stages", upmem.issue_gap,
                                            upmem.pipeline_stages));
  if (upmem.chips_per_rank > upmem.dpus_per_rank)
    faults.add(fields.origin(), fmt::format("{} chips a rank for {} DPUs", upmem.chips_per_rank, upmem.dpus_per_rank));
  if (upmem.wram_bytes >= upmem.mram_bytes)
    faults.add(fields.origin(), fmt::format("WRAM of {} bytes is not smaller than MRAM of {} bytes: a unit is wrong",
                                            upmem.wram_bytes, upmem.mram_bytes));
}

double dma_read_cycles(const UpmemParams& upmem, double bytes) {
  return bytes > 0 ? upmem.dma_read.fixed_cycles + upmem.dma_read.cycles_per_byte * bytes : 0;
}
double dma_write_cycles(const UpmemParams& upmem, double bytes) {
  return bytes > 0 ? upmem.dma_write.fixed_cycles + upmem.dma_write.cycles_per_byte * bytes : 0;
}

Instructions multiply(const UpmemParams& upmem, double bits) {
  return {upmem.instructions.multiply_base + upmem.instructions.multiply_bit * std::max(bits, 1.0), 1};
}

double free_running_cycles(const UpmemParams& upmem, const DpuWork& work) {
  const double chain = static_cast<double>(upmem.issue_gap) * work.busiest_issue + work.busiest_dma;
  return std::max({work.issue, work.dma, chain});
}

double lockstep_cycles(const UpmemParams& upmem, const LockstepRound& round, double rounds) {
  const auto t = static_cast<double>(upmem.tasklets), gap = static_cast<double>(upmem.issue_gap);
  const double after = std::max(t, gap) * round.after;
  const double before = std::max(t * round.read + gap * round.before, round.read + t * round.before);
  return rounds * (after + t * round.write + before + t * upmem.instructions.barrier);
}

double parallel_copy_s(const UpmemParams& upmem, const UpmemHostCopy& way, const ParallelCopy& copy) {
  const double n = std::min(copy.dpus, static_cast<double>(upmem.dpus_per_rank));
  const auto streams = static_cast<double>(way.streams), lanes = static_cast<double>(way.lanes);
  const auto chips = static_cast<double>(upmem.chips_per_rank);
  const double ranks = copy.dpus > n ? copy.dpus / n : 1;  // copies of ranks run beside each other
  const double cold = copy.working_set > 0 ? std::max(0.0, 1 - upmem.host_cache_bytes / copy.working_set) : 0;
  double per_byte = std::max(1.0, std::min(n, streams) / lanes) / way.lane_bandwidth;
  if (way.cold_bandwidth) per_byte += cold * std::min(n, chips) / *way.cold_bandwidth;
  return way.fixed_s + copy.bytes * per_byte + copy.distinct / ranks / way.host_bandwidth;
}

double serial_copy_s(const UpmemHostCopy& way, double bytes) {
  return way.serial_fixed_s + bytes / way.serial_bandwidth;
}

double symbol_read_s(const UpmemParams& upmem, double dpus, double bytes) {
  const double n = std::min(dpus, static_cast<double>(upmem.dpus_per_rank));
  return upmem.symbol_fixed_s + n * bytes / upmem.symbol_bandwidth;
}

}  // namespace orrery::hw
