// Dynamic voltage and frequency scaling: the same GPU at another clock.
//
//   s = clock / highest clock,   v(s) = max(floor, floor + (1 - floor) (s - knee) / (1 - knee))
//   matrix and vector peaks, L2 bandwidth, whatever takes cycles:  x s
//   energy of a FLOP: x v^2        `active` (clock trees, woken units): x s v^2       idle power, memory: unchanged
//
// Time and energy both move: a kernel bound by compute gets slower as 1/s while its FLOPs get cheaper as v^2, one bound
// by memory keeps its time. Below the knee the voltage has reached its floor, and slowing down further only lets static
// power add up: energy has a minimum inside the range. Voltages are not published; floor and knee are assumptions of
// the part (`dvfs` block). Left out: clocks of the memory, fixed latencies (they stay), time to switch.
#pragma once

#include <vector>

#include "sim/base/params.hpp"

namespace orrery::hw {

struct GpuParams;

/// The clocks a part can run at, and the voltage that each takes.
struct DvfsParams {
  double lowest_clock_hz = 210e6;
  double step_hz = 15e6;
  double voltage_floor = 0.72;
  double knee = 0.5;
  static sim::FieldRows<DvfsParams> fields();
};

/// Voltage at a share of the highest clock, as a share of the highest voltage.
double voltage_at(const DvfsParams& dvfs, double clock_share);

/// The part at another clock: `clock_hz` between the lowest and the highest of the part. Throws std::invalid_argument
/// outside.
GpuParams at_clock(const GpuParams& gpu, double clock_hz);

/// Every clock of the part, from the highest down by steps to the lowest, Hz.
std::vector<double> dvfs_clocks(const GpuParams& gpu);

}  // namespace orrery::hw
