#include "hw/parts/cpu.hpp"

#include <string>

namespace orrery::hw {

double core_rate(const CpuParams& cpu, DType dtype) {
  const double fp32 = 2.0 * static_cast<double>(cpu.simd_bits / 32 * cpu.fma_units);
  double rate = 0;
  switch (dtype) {
    case DType::fp16:
      rate = cpu.per_cycle.fp16;
      break;
    case DType::bf16:
      rate = cpu.per_cycle.bf16;
      break;
    case DType::fp8:
      rate = cpu.per_cycle.fp8;
      break;
    case DType::int8:
      rate = cpu.per_cycle.int8;
      break;
    default:
      break;
  }
  return rate > 0 ? rate : fp32;
}

double cpu_peak(const CpuParams& cpu, DType dtype) {
  return static_cast<double>(cpu.cores) * cpu.vector_clock_hz() * core_rate(cpu, dtype);
}

void CpuParams::check(const CpuParams& cpu, const sim::Node& fields, sim::Faults& faults) {
  const auto add = [&](const char* place, std::string message) {
    faults.add(fields.origin_at(place), std::move(message));
  };
  const auto show = [](double value, sim::Unit unit) { return sim::humanise(value, unit); };
  using sim::Unit;
  if (cpu.clock_boost_hz < cpu.clock_base_hz)
    add("clock_boost", "expected at least clock_base = " + show(cpu.clock_base_hz, Unit::hertz) + ", got " +
                           show(cpu.clock_boost_hz, Unit::hertz));
  if (cpu.clock_all_core_hz > cpu.clock_boost_hz)
    add("clock_all_core", "expected at most clock_boost = " + show(cpu.clock_boost_hz, Unit::hertz) + ", got " +
                              show(cpu.clock_all_core_hz, Unit::hertz));
  if (cpu.simd_bits % 32 != 0) add("simd_bits", "expected a multiple of 32, got " + std::to_string(cpu.simd_bits));
  if (cpu.core_bandwidth > cpu.memory_bandwidth)
    add("core_bandwidth", "expected at most memory_bandwidth = " + show(cpu.memory_bandwidth, Unit::bytes_per_s) +
                              ", got " + show(cpu.core_bandwidth, Unit::bytes_per_s));
  if (cpu.core_bandwidth * static_cast<double>(cpu.cores) < cpu.memory_bandwidth * cpu.stream_share)
    add("core_bandwidth", "expected the cores together to reach memory_bandwidth * stream_share = " +
                              show(cpu.memory_bandwidth * cpu.stream_share, Unit::bytes_per_s) + ", got " +
                              show(cpu.core_bandwidth, Unit::bytes_per_s) + " a core");
  if (cpu.power.idle_w >= cpu.power.tdp_w)
    add("power.idle", "expected less than tdp = " + show(cpu.power.tdp_w, Unit::watts) + ", got " +
                          show(cpu.power.idle_w, Unit::watts));
  if (cpu.l1_bytes > cpu.l2_bytes)
    add("l1", "expected at most l2 = " + show(static_cast<double>(cpu.l2_bytes), Unit::bytes) + ", got " +
                  show(static_cast<double>(cpu.l1_bytes), Unit::bytes));
}

sim::FieldRows<CoreRates> CoreRates::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("fp16", &CoreRates::fp16, Unit::none, sim::between(0, 1 << 16), "FLOP per cycle."),
      sim::field("bf16", &CoreRates::bf16, Unit::none, sim::between(0, 1 << 16), "FLOP per cycle."),
      sim::field("fp8", &CoreRates::fp8, Unit::none, sim::between(0, 1 << 16), "FLOP per cycle."),
      sim::field("int8", &CoreRates::int8, Unit::none, sim::between(0, 1 << 16), "Operations per cycle."),
      sim::field("tile_rows", &CoreRates::tile_rows, Unit::count, sim::between(1, 256),
                 "Rows of a matrix unit's tile; a product with fewer rows fills it up with zeros."),
  };
  return table;
}

sim::FieldRows<CpuPower> CpuPower::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("idle", &CpuPower::idle_w, Unit::watts, sim::at_least(0), "Package without work.")),
      sim::required(sim::field("tdp", &CpuPower::tdp_w, Unit::watts, sim::positive(), "Thermal design power.")),
      sim::field("core_active", &CpuPower::core_active_w, Unit::watts, sim::at_least(0),
                 "Added by a core that runs a thread, whatever it does."),
      sim::field("flop", &CpuPower::flop_j, Unit::joules, sim::at_least(0),
                 "Energy of an fp32 FLOP of the vector units; narrower formats cost their share of the width."),
      sim::field("memory_byte", &CpuPower::memory_byte_j, Unit::joules, sim::at_least(0),
                 "Energy of a byte of main memory on its way to a core."),
  };
  return table;
}

sim::FieldRows<CpuParams> CpuParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("cores", &CpuParams::cores, Unit::count, sim::between(1, 4096), "Cores, all sockets.")),
      sim::required(sim::field("clock_base", &CpuParams::clock_base_hz, Unit::hertz, sim::between(1e8, 1e10),
                               "Base clock of the data sheet.")),
      sim::required(sim::field("clock_boost", &CpuParams::clock_boost_hz, Unit::hertz, sim::between(1e8, 1e10),
                               "Highest clock of one core: the dispatching thread's.")),
      sim::field("clock_all_core", &CpuParams::clock_all_core_hz, Unit::hertz, sim::between(0, 1e10),
                 "Clock with all cores in vector code; 0: the base clock."),
      sim::field("single_thread", &CpuParams::single_thread, Unit::ratio, sim::between(0.05, 20),
                 "Speed of one core on dispatching code, relative to an EPYC 7313's."),
      sim::required(sim::field("simd_bits", &CpuParams::simd_bits, Unit::count, sim::between(32, 4096),
                               "Width of a vector unit.")),
      sim::required(sim::field("fma_units", &CpuParams::fma_units, Unit::count, sim::between(1, 16),
                               "Vector units that start a multiply-add of that width each cycle.")),
      sim::field("per_cycle", &CpuParams::per_cycle, "Rates of narrower formats per core."),
      sim::required(sim::field("l1", &CpuParams::l1_bytes, Unit::bytes, sim::positive(), "Data cache of a core.")),
      sim::required(sim::field("l2", &CpuParams::l2_bytes, Unit::bytes, sim::positive(), "Private cache of a core.")),
      sim::required(sim::field("l3", &CpuParams::l3_bytes, Unit::bytes, sim::positive(), "All of the last level.")),
      sim::field("l3_keep", &CpuParams::l3_keep, Unit::ratio, sim::between(0, 1),
                 "Share of the last level that useful operands keep."),
      sim::required(sim::field("l3_core_bandwidth", &CpuParams::l3_core_bandwidth, Unit::bytes_per_s, sim::positive(),
                               "What one core draws from the last level.")),
      sim::required(sim::field("memory", &CpuParams::memory_bytes, Unit::bytes, sim::positive(), "Main memory.")),
      sim::required(sim::field("memory_channels", &CpuParams::memory_channels, Unit::count, sim::between(1, 256),
                               "Memory channels, all sockets.")),
      sim::required(sim::field("memory_bandwidth", &CpuParams::memory_bandwidth, Unit::bytes_per_s, sim::positive(),
                               "Peak of all channels.")),
      sim::field("stream_share", &CpuParams::stream_share, Unit::ratio, sim::between(0.01, 1),
                 "Share of that peak that STREAM reaches."),
      sim::required(sim::field("core_bandwidth", &CpuParams::core_bandwidth, Unit::bytes_per_s, sim::positive(),
                               "What one core alone draws from memory.")),
      sim::field("gemm_efficiency", &CpuParams::gemm_efficiency, Unit::ratio, sim::between(0.01, 1),
                 "Share of the peak that large products reach."),
      sim::field("vector_efficiency", &CpuParams::vector_efficiency, Unit::ratio, sim::between(0.01, 1),
                 "Share of the fp32 peak that attention and element-wise code reach."),
      sim::field("fork", &CpuParams::fork_s, Unit::seconds, sim::at_least(0), "Start and join of a parallel loop."),
      sim::field("fork_per_thread", &CpuParams::fork_per_thread_s, Unit::seconds, sim::at_least(0),
                 "Added to it by every thread."),
      sim::field("residency", &CpuParams::residency, "What the last-level cache holds when a kernel starts."),
      sim::required(sim::field("power", &CpuParams::power, "Power and energy.")),
  };
  return table;
}

}  // namespace orrery::hw
