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
      sim::field("fp16", &CoreRates::fp16, Unit::none, sim::between(0, 1 << 16),
                 "fp16 FLOP per core and cycle; 0: done in fp32 units."),
      sim::field("bf16", &CoreRates::bf16, Unit::none, sim::between(0, 1 << 16),
                 "bf16 FLOP per core and cycle; 0: done in fp32 units."),
      sim::field("fp8", &CoreRates::fp8, Unit::none, sim::between(0, 1 << 16),
                 "fp8 FLOP per core and cycle; 0: done in fp32 units."),
      sim::field("int8", &CoreRates::int8, Unit::none, sim::between(0, 1 << 16),
                 "int8 operations per core and cycle; 0: done in fp32 units."),
      sim::field("tile_rows", &CoreRates::tile_rows, Unit::count, sim::between(1, 256),
                 "Rows of a matrix unit's tile; a product with fewer rows is padded with zeros."),
  };
  return table;
}

sim::FieldRows<CpuPower> CpuPower::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("idle", &CpuPower::idle_w, Unit::watts, sim::at_least(0), "Power of the idle package.")),
      sim::required(sim::field("tdp", &CpuPower::tdp_w, Unit::watts, sim::positive(), "Thermal design power.")),
      sim::field("core_active", &CpuPower::core_active_w, Unit::watts, sim::at_least(0),
                 "Power added by each core that runs a thread, whatever it does."),
      sim::field("flop", &CpuPower::flop_j, Unit::joules, sim::at_least(0),
                 "Energy of one fp32 FLOP of the vector units; narrower formats cost in proportion to their width."),
      sim::field("memory_byte", &CpuPower::memory_byte_j, Unit::joules, sim::at_least(0),
                 "Energy to move one byte between main memory and a core."),
  };
  return table;
}

sim::FieldRows<CpuParams> CpuParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("cores", &CpuParams::cores, Unit::count, sim::between(1, 4096),
                               "Number of cores, over all sockets.")),
      sim::required(sim::field("clock_base", &CpuParams::clock_base_hz, Unit::hertz, sim::between(1e8, 1e10),
                               "Base clock, from the data sheet.")),
      sim::required(sim::field("clock_boost", &CpuParams::clock_boost_hz, Unit::hertz, sim::between(1e8, 1e10),
                               "Highest clock of a single core, used for the dispatching thread.")),
      sim::field("clock_all_core", &CpuParams::clock_all_core_hz, Unit::hertz, sim::between(0, 1e10),
                 "Clock when all cores run vector code; 0: the base clock."),
      sim::field("single_thread", &CpuParams::single_thread, Unit::ratio, sim::between(0.05, 20),
                 "Speed of one core on dispatching code, relative to that of an EPYC 7313."),
      sim::required(sim::field("simd_bits", &CpuParams::simd_bits, Unit::count, sim::between(32, 4096),
                               "Width of a vector unit, in bits.")),
      sim::required(sim::field("fma_units", &CpuParams::fma_units, Unit::count, sim::between(1, 16),
                               "Number of vector units per core that start a multiply-add of that width each cycle.")),
      sim::field("per_cycle", &CpuParams::per_cycle, "Rates of narrower number formats, per core and cycle."),
      sim::required(
          sim::field("l1", &CpuParams::l1_bytes, Unit::bytes, sim::positive(), "Size of a core's L1 data cache.")),
      sim::required(
          sim::field("l2", &CpuParams::l2_bytes, Unit::bytes, sim::positive(), "Size of a core's private L2 cache.")),
      sim::required(
          sim::field("l3", &CpuParams::l3_bytes, Unit::bytes, sim::positive(), "Total size of the last-level cache.")),
      sim::field("l3_keep", &CpuParams::l3_keep, Unit::ratio, sim::between(0, 1),
                 "Share of the last-level cache that useful operands occupy."),
      sim::required(sim::field("l3_core_bandwidth", &CpuParams::l3_core_bandwidth, Unit::bytes_per_s, sim::positive(),
                               "Bandwidth that one core draws from the last-level cache.")),
      sim::required(
          sim::field("memory", &CpuParams::memory_bytes, Unit::bytes, sim::positive(), "Size of the main memory.")),
      sim::required(sim::field("memory_channels", &CpuParams::memory_channels, Unit::count, sim::between(1, 256),
                               "Number of memory channels, over all sockets.")),
      sim::required(sim::field("memory_bandwidth", &CpuParams::memory_bandwidth, Unit::bytes_per_s, sim::positive(),
                               "Peak memory bandwidth of all channels.")),
      sim::field("stream_share", &CpuParams::stream_share, Unit::ratio, sim::between(0.01, 1),
                 "Share of the peak memory bandwidth that STREAM reaches."),
      sim::required(sim::field("core_bandwidth", &CpuParams::core_bandwidth, Unit::bytes_per_s, sim::positive(),
                               "Memory bandwidth that a single core reaches alone.")),
      sim::field("gemm_efficiency", &CpuParams::gemm_efficiency, Unit::ratio, sim::between(0.01, 1),
                 "Share of the peak FLOP/s that large matrix products reach."),
      sim::field("vector_efficiency", &CpuParams::vector_efficiency, Unit::ratio, sim::between(0.01, 1),
                 "Share of the fp32 peak that attention and elementwise code reach."),
      sim::field("fork", &CpuParams::fork_s, Unit::seconds, sim::at_least(0),
                 "Time to start and join a parallel loop."),
      sim::field("fork_per_thread", &CpuParams::fork_per_thread_s, Unit::seconds, sim::at_least(0),
                 "Time that each thread adds to fork."),
      sim::field("residency", &CpuParams::residency,
                 "What the last-level cache holds when a kernel starts: nothing (cold), the activations, or all "
                 "operands that fit."),
      sim::required(sim::field("power", &CpuParams::power, "Power and energy.")),
  };
  return table;
}

}  // namespace orrery::hw
