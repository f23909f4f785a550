// UPMEM: general-purpose cores (DPUs) beside every DRAM bank of a DIMM, driven by a host that moves the data.
//
// A DPU is an in-order core with a private 64 MB bank (MRAM), 64 KB of scratchpad (WRAM) and up to 24 threads
// (tasklets). It issues at most one instruction a cycle, and a tasklet's next instruction only when `issue_gap` cycles
// have passed, so that 11 tasklets fill it:
//
//   issue = instructions + bank_conflict * two_source     cycles, of all tasklets together
//   dma   = fixed + per_byte * bytes                       cycles of the one MRAM-WRAM engine, one transfer at a time
//   free-running tasklets:  t = max(sum of issue, sum of dma, issue_gap * issue + dma of the busiest tasklet)
//   in lockstep (a barrier a round): see lockstep_cycles
//
// Work is instruction counts (hw/pim/prim.hpp counts the loops of the PrIM benchmarks by hand), never a rate fitted to
// a program. `two_source` counts the instructions that read two registers: the register file has an even and an odd
// bank, and two operands of one bank cost a cycle more (Hyun et al., "Pathfinding Future PIM Architectures by
// Demystifying a Commercial PIM Technology", HPCA 2024); `bank_conflict` is how often compiled code meets that.
//
// The host copies to one DPU at a time or to many of a rank in parallel, all with the size of the largest. For a rank
// of n DPUs, b bytes each, D different bytes at the host and a working set of W around the copy:
//
//   t = fixed + b * (max(1, min(n, streams) / lanes) / lane_bandwidth
//                    + c * min(n, chips) / cold_bandwidth) + D / host_bandwidth
//   c = max(0, 1 - host_cache / W): what of the data does not come from the host's cache
//
// A burst of 64 bytes takes a word from each of the rank's 8 chips. What is not in the cache is fetched word by word
// for the DPUs of a burst, one after the other, at `cold_bandwidth`; bursts of different banks overlap, so beyond
// `chips` DPUs cold data costs no more. `lane_bandwidth` is the interleaved write of one DPU's words (up to `lanes`
// DPUs share a burst), `streams` how many DPUs' data the host keeps in flight. DPUs exchange data only through the
// host. Sources: Gomez-Luna et al., "Benchmarking a New Paradigm", 2021 (PrIM); constants and their sources in
// hw/catalog/upmem-ddr4-2400.json; docs/explain/pim-upmem.md. Left out: DRAM refresh, MRAM row hits, several ranks on
// one memory channel in conflict, faulty DPUs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "hw/base/cost_model.hpp"
#include "sim/base/params.hpp"

namespace orrery::hw {

/// One direction of the MRAM-WRAM engine, in cycles.
struct UpmemDma {
  double fixed_cycles = 64, cycles_per_byte = 0.52;
  static sim::FieldRows<UpmemDma> fields();
};

/// Instructions of arithmetic on 32-bit operands, loads, addresses and loops left out.
struct UpmemInstructions {
  double add = 1, multiply_base = 5, multiply_bit = 1, divide = 45;
  double add_float = 66, multiply_float = 170;
  double dma_call = 10;
  double barrier = 45;
  static sim::FieldRows<UpmemInstructions> fields();
};

/// One direction of parallel copies between the host and the DPUs of a rank.
struct UpmemHostCopy {
  double fixed_s = 57e-6;
  double lane_bandwidth = 0.77e9, host_bandwidth = 11e9;
  std::optional<double> cold_bandwidth;
  std::int64_t lanes = 4, streams = 16;
  double serial_fixed_s = 36e-6, serial_bandwidth = 0.33e9;
  static sim::FieldRows<UpmemHostCopy> fields();
};

/// A system of UPMEM DIMMs and the host they hang on. Sizes in bytes, times in s.
struct UpmemParams {
  static constexpr std::string_view kKind = "upmem";
  std::int64_t dimms = 20, ranks_per_dimm = 2, dpus_per_rank = 64, chips_per_rank = 8;
  double clock_hz = 350e6;
  std::int64_t pipeline_stages = 14, issue_gap = 11, max_tasklets = 24, tasklets = 16;
  std::int64_t mram_bytes = 64 << 20, wram_bytes = 64 << 10, iram_bytes = 24 << 10;
  double bank_conflict = 0.4;
  UpmemDma dma_read{}, dma_write{42, 0.526};
  UpmemInstructions instructions;
  UpmemHostCopy to_dpu{}, from_dpu{120e-6, 0.12e9, 2.8e9, {}, 8, 16, 186e-6, 0.119e9};
  double symbol_fixed_s = 60e-6, symbol_bandwidth = 15.2e6;
  double launch_s = 150e-6;
  double host_cache_bytes = 6e6, host_memory_bandwidth = 23.1e9;
  double dimm_power_w = 23.22, dimm_idle_w = 0;

  static sim::FieldRows<UpmemParams> fields();
  std::int64_t dpus() const { return dimms * ranks_per_dimm * dpus_per_rank; }
  /// Faults that only several fields together show: one clear line each.
  static void check(const UpmemParams& upmem, const sim::Node& fields, sim::Faults& faults);
};

/// Instructions of a piece of code: all of them, and those that read two registers.
struct Instructions {
  double count = 0, two_source = 0;
  constexpr Instructions operator+(Instructions o) const { return {count + o.count, two_source + o.two_source}; }
  constexpr Instructions operator*(double times) const { return {count * times, two_source * times}; }
};

/// Cycles of issue that instructions take.
inline double issue_cycles(const UpmemParams& upmem, Instructions code) {
  return code.count + upmem.bank_conflict * code.two_source;
}
/// Cycles of the engine for one transfer; 0 bytes: no transfer.
double dma_read_cycles(const UpmemParams& upmem, double bytes);
double dma_write_cycles(const UpmemParams& upmem, double bytes);
/// A 32-bit product whose smaller operand has `bits` significant bits (at least one step).
Instructions multiply(const UpmemParams& upmem, double bits);

/// Work of one DPU whose tasklets run on their own: totals, and what the busiest tasklet has of them.
struct DpuWork {
  double issue = 0, dma = 0;                  ///< cycles, all tasklets
  double busiest_issue = 0, busiest_dma = 0;  ///< cycles, the tasklet with the most work
};
/// Cycles of free-running tasklets.
double free_running_cycles(const UpmemParams& upmem, const DpuWork& work);

/// One round of tasklets in lockstep: each reads a block, works on it, meets the others, works on, and writes.
struct LockstepRound {
  double read = 0, write = 0;    ///< cycles of one tasklet's transfers
  double before = 0, after = 0;  ///< issue cycles of one tasklet before and after the barrier
};
/// Cycles of `rounds` rounds. All tasklets work after the barrier (issue-bound), then all write and read the next
/// block one after another while those that have theirs work already; the last one works on alone:
///   T * after + T * write + max(T * read + gap * before, read + T * before) + T * barrier
double lockstep_cycles(const UpmemParams& upmem, const LockstepRound& round, double rounds);

/// A parallel copy between the host and DPUs.
struct ParallelCopy {
  double dpus = 1, bytes = 0;  ///< bytes of each
  double distinct = 0;         ///< different bytes at the host: dpus * bytes, or bytes if all get the same
  double working_set = 0;      ///< host data in use around it: what does not fit the cache is cold
};
/// Its time in s. DPUs beyond a rank are spread over ranks that copy at the same time.
double parallel_copy_s(const UpmemParams& upmem, const UpmemHostCopy& way, const ParallelCopy& copy);
/// A copy with one DPU; s.
double serial_copy_s(const UpmemHostCopy& way, double bytes);
/// A parallel read of a variable in WRAM, `bytes` a DPU; s.
double symbol_read_s(const UpmemParams& upmem, double dpus, double bytes);

/// A cost model for single kernels whose operands already lie in MRAM, split evenly over all DPUs: instructions by
/// dtype and the bytes of Work through 1 KB transfers, host copies of activations left to the caller. A Gemm of m rows
/// passes over its weights once a row. Attention and other shapes go by their FLOPs and bytes.
std::unique_ptr<CostModel> make_upmem_cost_model(const UpmemParams& upmem);

}  // namespace orrery::hw
