// A CPU: cores with vector and matrix units, caches, memory channels, and one thread that dispatches to accelerators.
//
// `CpuParams` holds published facts and few named assumptions; `cpu_cost` answers every Kernel in closed form:
//   peak(t)    = t clock 2 (simd_bits / 32) fma_units        FLOP/s of fp32 on t cores, or t clock <format>_per_cycle
//   t          = min(cores, independent parts, about sqrt(serial / fork_per_thread))   threads that repay their fork
//   compute    = flops padded to a matrix tile / (peak(t) efficiency)
//   memory     = bytes from DRAM / min(t core_bandwidth, memory_bandwidth stream_share) + bytes from L3 / min(t, cores)
//   L3 time       = max(compute, memory) + fork + t fork_per_thread                       or one core alone, if sooner
// `serial` is the same maximum on one core. Cache residency: activations (operands that another kernel has just
// written) lie in the last-level cache as far as they fit `l3 * l3_keep`; weights and cached keys lie there only if
// `residency` says `all`. Products whose operands exceed the cache read them again block by block: 2 m n k element /
// sqrt(l3 keep / (3 element)), the traffic of square blocks (Hong and Kung, 1981, with three blocks in the cache).
// Sources: roofline of Williams et al. (CACM 2009) with cores and caches; the constants' stand in hw/catalog/*.json.
// Left out: NUMA beyond the achieved bandwidth, SMT, clocks that move with load (one all-core clock stands for them),
// page faults, interference of the dispatching thread with the working ones.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "hw/base/kernel.hpp"
#include "sim/base/params.hpp"

namespace orrery::hw {

class CostModel;

/// Which operands the last-level cache still holds when a kernel starts.
enum class CacheResidency : std::uint8_t { cold, activations, all };
constexpr auto enum_names(CacheResidency) {
  using enum CacheResidency;
  return sim::names<CacheResidency>({{"cold", cold}, {"activations", activations}, {"all", all}});
}

/// Operations of one core per cycle by format, on its best units (a multiply-add is two). 0: done in fp32 units.
struct CoreRates {
  double fp16 = 0, bf16 = 0, fp8 = 0, int8 = 0;
  std::int64_t tile_rows = 1;
  static sim::FieldRows<CoreRates> fields();
};

/// Power in W, energy in J.
struct CpuPower {
  double idle_w = 0, tdp_w = 0, core_active_w = 0, flop_j = 0, memory_byte_j = 0;
  static sim::FieldRows<CpuPower> fields();
};

/// One socket (or the sockets of a host, if `cores` and the memory count them all). Rates per s, sizes in bytes.
struct CpuParams {
  static constexpr std::string_view kKind = "cpu";
  std::int64_t cores = 0;
  double clock_base_hz = 0, clock_boost_hz = 0, clock_all_core_hz = 0;
  double single_thread = 1;
  std::int64_t simd_bits = 0, fma_units = 0;
  CoreRates per_cycle;
  std::int64_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0;
  double l3_keep = 0.7;
  double l3_core_bandwidth = 0;
  std::int64_t memory_bytes = 0, memory_channels = 0;
  double memory_bandwidth = 0, stream_share = 0.8, core_bandwidth = 0;
  double gemm_efficiency = 0.75, vector_efficiency = 0.5;
  double fork_s = 1e-6, fork_per_thread_s = 50e-9;
  CacheResidency residency = CacheResidency::activations;
  CpuPower power;

  static sim::FieldRows<CpuParams> fields();

  /// Faults that no single field shows: clocks in the wrong order, bandwidth that the cores or channels cannot give.
  static void check(const CpuParams& cpu, const sim::Node& fields, sim::Faults& faults);

  /// Clock of a core when all cores run vector code, Hz.
  double vector_clock_hz() const { return clock_all_core_hz > 0 ? clock_all_core_hz : clock_base_hz; }
};

/// FLOP (or integer operations) of one core per cycle in `dtype`, on its best units.
double core_rate(const CpuParams& cpu, DType dtype);
/// Peak of all cores at the all-core clock, FLOP/s.
double cpu_peak(const CpuParams& cpu, DType dtype);
/// Bandwidth that STREAM reaches with all cores, B/s.
inline double stream_bandwidth(const CpuParams& cpu) {
  return cpu.memory_bandwidth * cpu.stream_share;
}

/// The cost of kernels on all cores (hw/parts/cpu_cost.cpp).
std::unique_ptr<CostModel> make_cpu_cost(const CpuParams& cpu);

}  // namespace orrery::hw
