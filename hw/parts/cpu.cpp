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

}  // namespace orrery::hw
