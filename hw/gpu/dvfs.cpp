#include "hw/gpu/dvfs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "hw/gpu/clock_change.hpp"
#include "hw/gpu/gpu.hpp"

namespace orrery::hw {

double voltage_at(const DvfsParams& dvfs, double clock_share) {
  const double above = (clock_share - dvfs.knee) / (1 - dvfs.knee);
  return dvfs.voltage_floor + (1 - dvfs.voltage_floor) * std::clamp(above, 0.0, 1.0);
}

ClockChange change_clock(const DvfsParams& dvfs, double from_hz, double to_hz) {
  if (!(to_hz >= dvfs.lowest_clock_hz && to_hz <= from_hz))
    throw std::invalid_argument(fmt::format("a clock of {:.6g} MHz is outside {:.6g} to {:.6g} MHz", to_hz * 1e-6,
                                            dvfs.lowest_clock_hz * 1e-6, from_hz * 1e-6));
  ClockChange change{.share = to_hz / from_hz, .dvfs = dvfs};
  const double voltage = voltage_at(dvfs, change.share);
  change.voltage_squared = voltage * voltage;
  change.dvfs.voltage_floor = std::min(1.0, dvfs.voltage_floor / voltage);
  change.dvfs.knee = std::min(0.95, dvfs.knee / change.share);
  return change;
}

GpuParams at_clock(const GpuParams& gpu, double clock_hz) {
  const ClockChange change = change_clock(gpu.dvfs, gpu.clock_hz, clock_hz);
  const double share = change.share, squared = change.voltage_squared;
  GpuParams out = gpu;
  out.clock_hz = clock_hz;
  out.dvfs = change.dvfs;
  for (double* rate : {&out.peak.fp32, &out.peak.fp16, &out.peak.bf16, &out.peak.fp8, &out.peak.int8, &out.peak.fp4,
                       &out.l2_bandwidth})
    *rate *= share;
  for (double* energy : {&out.power.fp32_flop_j, &out.power.fp16_flop_j, &out.power.fp8_flop_j}) *energy *= squared;
  out.power.active_w *= share * squared;
  out.gemm.peak_power *= share * squared;
  return out;
}

std::vector<double> dvfs_clocks(const GpuParams& gpu) {
  std::vector<double> clocks;
  for (std::int64_t i = 0;; ++i) {
    const double clock = gpu.clock_hz - static_cast<double>(i) * gpu.dvfs.step_hz;
    if (clock < gpu.dvfs.lowest_clock_hz * (1 - 1e-12)) return clocks;
    clocks.push_back(clock);
  }
}

sim::FieldRows<DvfsParams> DvfsParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("lowest_clock", &DvfsParams::lowest_clock_hz, Unit::hertz, sim::positive(),
                 "Lowest clock of the device."),
      sim::field("step", &DvfsParams::step_hz, Unit::hertz, sim::at_least(1e3),
                 "Distance between neighbouring clocks."),
      sim::field("voltage_floor", &DvfsParams::voltage_floor, Unit::ratio, sim::between(0.3, 1),
                 "Lowest voltage, as a share of the voltage at the highest clock."),
      sim::field("knee", &DvfsParams::knee, Unit::ratio, sim::between(0, 0.95),
                 "Share of the highest clock at which the voltage reaches its floor."),
  };
  return table;
}

}  // namespace orrery::hw
