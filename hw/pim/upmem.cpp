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

sim::FieldRows<UpmemDma> UpmemDma::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("fixed_cycles", &UpmemDma::fixed_cycles, Unit::count, sim::at_least(0),
                 "Cycles of the DMA engine for a transfer of no bytes."),
      sim::field("cycles_per_byte", &UpmemDma::cycles_per_byte, Unit::none, sim::positive(),
                 "Further cycles of the DMA engine per byte."),
  };
  return table;
}

sim::FieldRows<UpmemInstructions> UpmemInstructions::fields() {
  using sim::Unit;
  constexpr sim::Range kCount = sim::at_least(0);
  static const sim::FieldTable table{
      sim::field("add", &UpmemInstructions::add, Unit::count, kCount,
                 "Instructions of a 32-bit addition; a 64-bit one takes two."),
      sim::field("multiply_base", &UpmemInstructions::multiply_base, Unit::count, kCount,
                 "Instructions to call, swap, move and return around the steps of a 32-bit product."),
      sim::field("multiply_bit", &UpmemInstructions::multiply_bit, Unit::count, kCount,
                 "Instructions per significant bit of the smaller operand of a 32-bit product."),
      sim::field("divide", &UpmemInstructions::divide, Unit::count, kCount, "Instructions of a 32-bit division."),
      sim::field("add_float", &UpmemInstructions::add_float, Unit::count, kCount,
                 "Instructions of an emulated fp32 addition."),
      sim::field("multiply_float", &UpmemInstructions::multiply_float, Unit::count, kCount,
                 "Instructions of an emulated fp32 product."),
      sim::field("dma_call", &UpmemInstructions::dma_call, Unit::count, kCount,
                 "Instructions to set up one MRAM-WRAM transfer."),
      sim::field("barrier", &UpmemInstructions::barrier, Unit::count, kCount,
                 "Instructions for handshake and barrier, per tasklet and round."),
  };
  return table;
}

sim::FieldRows<UpmemHostCopy> UpmemHostCopy::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("fixed", &UpmemHostCopy::fixed_s, Unit::seconds, sim::at_least(0), "Fixed time of a parallel copy."),
      sim::field("lane_bandwidth", &UpmemHostCopy::lane_bandwidth, Unit::bytes_per_s, sim::positive(),
                 "Bandwidth of one DPU in a parallel copy, whose words are interleaved with those of its neighbours."),
      sim::field("host_bandwidth", &UpmemHostCopy::host_bandwidth, Unit::bytes_per_s, sim::positive(),
                 "Rate at which the host reads, transposes and writes distinct bytes."),
      sim::field("cold_bandwidth", &UpmemHostCopy::cold_bandwidth, Unit::bytes_per_s, sim::positive(),
                 "Further bandwidth limit of one DPU's data where it misses the host's cache; null: none."),
      sim::field("lanes", &UpmemHostCopy::lanes, Unit::count, sim::between(1, 64),
                 "Number of DPUs that share a burst."),
      sim::field("streams", &UpmemHostCopy::streams, Unit::count, sim::between(1, 64),
                 "Number of DPUs whose data the host keeps in flight."),
      sim::field("serial_fixed", &UpmemHostCopy::serial_fixed_s, Unit::seconds, sim::at_least(0),
                 "Fixed time of a copy to or from one DPU."),
      sim::field("serial_bandwidth", &UpmemHostCopy::serial_bandwidth, Unit::bytes_per_s, sim::positive(),
                 "Bandwidth of a copy to or from one DPU."),
  };
  return table;
}

sim::FieldRows<UpmemParams> UpmemParams::fields() {
  using sim::Unit;
  constexpr auto kCount = sim::at_least(1);
  static const sim::FieldTable table{
      sim::required(sim::field("dimms", &UpmemParams::dimms, Unit::count, kCount, "Number of DIMMs in the system.")),
      sim::field("ranks_per_dimm", &UpmemParams::ranks_per_dimm, Unit::count, kCount, "Number of ranks per DIMM."),
      sim::field("dpus_per_rank", &UpmemParams::dpus_per_rank, Unit::count, sim::between(1, 128),
                 "Number of cores (DPUs) per rank, one for each bank."),
      sim::required(
          sim::field("clock", &UpmemParams::clock_hz, Unit::hertz, sim::between(50e6, 2e9), "Clock of the DPUs.")),
      sim::field("chips_per_rank", &UpmemParams::chips_per_rank, Unit::count, sim::between(1, 64),
                 "Number of DRAM chips that share a rank's bursts."),
      sim::field("pipeline_stages", &UpmemParams::pipeline_stages, Unit::count, kCount,
                 "Number of stages of a DPU's pipeline."),
      sim::field("issue_gap", &UpmemParams::issue_gap, Unit::count, kCount,
                 "Cycles between two instructions of a tasklet, and so the number of tasklets that fill the pipeline."),
      sim::field("max_tasklets", &UpmemParams::max_tasklets, Unit::count, kCount,
                 "Number of hardware threads (tasklets) of a DPU."),
      sim::field("tasklets", &UpmemParams::tasklets, Unit::count, kCount, "Number of tasklets that programs use."),
      sim::field("mram", &UpmemParams::mram_bytes, Unit::bytes, kCount, "Size of a DPU's DRAM bank (MRAM)."),
      sim::field("wram", &UpmemParams::wram_bytes, Unit::bytes, kCount, "Size of a DPU's scratchpad (WRAM)."),
      sim::field("iram", &UpmemParams::iram_bytes, Unit::bytes, kCount, "Size of a DPU's instruction memory (IRAM)."),
      sim::field("bank_conflict", &UpmemParams::bank_conflict, Unit::ratio, sim::between(0, 1),
                 "Share of instructions with two source registers that lose a cycle to the register file."),
      sim::field("dma_read", &UpmemParams::dma_read, "Transfers from MRAM to WRAM."),
      sim::field("dma_write", &UpmemParams::dma_write, "Transfers from WRAM to MRAM."),
      sim::field("instructions", &UpmemParams::instructions, "Instruction counts of arithmetic and calls."),
      sim::field("to_dpu", &UpmemParams::to_dpu, "Parallel and single copies from the host to MRAM."),
      sim::field("from_dpu", &UpmemParams::from_dpu, "Parallel and single copies from MRAM to the host."),
      sim::field("symbol_fixed", &UpmemParams::symbol_fixed_s, Unit::seconds, sim::at_least(0),
                 "Fixed time of a parallel read of a variable in WRAM."),
      sim::field("symbol_bandwidth", &UpmemParams::symbol_bandwidth, Unit::bytes_per_s, sim::positive(),
                 "Bandwidth of reading a variable in WRAM, one DPU after another."),
      sim::field("launch", &UpmemParams::launch_s, Unit::seconds, sim::at_least(0),
                 "Time to boot all DPUs and to poll for their end."),
      sim::field("host_cache", &UpmemParams::host_cache_bytes, Unit::bytes, sim::at_least(0),
                 "Host data that is in the host's cache when a copy starts."),
      sim::field("host_memory_bandwidth", &UpmemParams::host_memory_bandwidth, Unit::bytes_per_s, sim::positive(),
                 "Memory bandwidth of the host, used for the CPU baseline."),
      sim::field("dimm_power", &UpmemParams::dimm_power_w, Unit::watts, sim::at_least(0), "Power of a busy DIMM."),
      sim::field("dimm_idle", &UpmemParams::dimm_idle_w, Unit::watts, sim::at_least(0), "Power of an idle DIMM."),
  };
  return table;
}

}  // namespace orrery::hw
