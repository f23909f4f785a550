#include "hw/dvfs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "hw/gpu.hpp"

namespace orrery::hw {

double voltage_at(const DvfsParams& dvfs, double clock_share) {
  const double above = (clock_share - dvfs.knee) / (1 - dvfs.knee);
  return dvfs.voltage_floor + (1 - dvfs.voltage_floor) * std::clamp(above, 0.0, 1.0);
}

GpuParams at_clock(const GpuParams& gpu, double clock_hz) {
  if (!(clock_hz >= gpu.dvfs.lowest_clock_hz && clock_hz <= gpu.clock_hz))
    throw std::invalid_argument(fmt::format("a clock of {:.6g} MHz is outside {:.6g} to {:.6g} MHz", clock_hz * 1e-6,
                                            gpu.dvfs.lowest_clock_hz * 1e-6, gpu.clock_hz * 1e-6));
  const double share = clock_hz / gpu.clock_hz;
  const double voltage = voltage_at(gpu.dvfs, share), squared = voltage * voltage;
  GpuParams out = gpu;
  out.clock_hz = clock_hz;
  for (double* rate :
       {&out.peak.fp32, &out.peak.fp16, &out.peak.bf16, &out.peak.fp8, &out.peak.int8, &out.l2_bandwidth})
    *rate *= share;
  for (double* energy : {&out.power.fp32_flop_j, &out.power.fp16_flop_j, &out.power.fp8_flop_j}) *energy *= squared;
  out.power.active_w *= share * squared;
  out.gemm.peak_power *= share * squared;
  // The part at this clock is a part of its own: its highest clock is this one, and so is its voltage.
  out.dvfs.voltage_floor = std::min(1.0, gpu.dvfs.voltage_floor / voltage);
  out.dvfs.knee = std::min(0.95, gpu.dvfs.knee / share);
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

}  // namespace orrery::hw
