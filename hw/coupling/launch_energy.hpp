// Energy of a program of launches: who drew it, and when.
//
// The device draws its idle power from the first call to the last end. A kernel adds its own energy (of FLOPs and
// active power: "compute"; of device memory: "memory") over the time it runs. All of it is booked in one ledger in
// whole picojoules, so that accounts and the power series agree exactly. Left out: the CPU, the link.
#pragma once

#include <span>

#include "hw/base/cost_model.hpp"
#include "hw/coupling/launch_program.hpp"
#include "hw/coupling/launch_run.hpp"
#include "sim/energy_ledger.hpp"

namespace orrery::hw {

/// Books the kernels of `launched`, which ran at `timings` (one a kernel), on a device of idle power `idle_w` called
/// `device`. `bin` is that of the power series; zero: none. Throws std::invalid_argument if the counts differ.
sim::EnergyLedger launch_energy(const std::string& device, double idle_w, const CostModel& cost,
                                std::span<const LaunchedKernel> launched, std::span<const CommandTiming> timings,
                                sim::TickScale scale, sim::Duration bin = {});

}  // namespace orrery::hw
