// Power and energy of a device, as every kind of part that draws them states them.
#pragma once

#include "sim/base/params.hpp"

namespace orrery::hw {

/// Power in W and dynamic energy in J per FLOP and per byte of device memory.
struct PowerParams {
  double idle_w = 0, active_w = 0, tdp_w = 0;
  double fp32_flop_j = 0, fp16_flop_j = 0, fp8_flop_j = 0, memory_byte_j = 0;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("idle", &PowerParams::idle_w, Unit::watts, sim::at_least(0), "Power without work.")),
        sim::field("active", &PowerParams::active_w, Unit::watts, sim::at_least(0),
                   "Added while any kernel runs, whatever it does: clocks, schedulers, leakage of woken units."),
        sim::required(sim::field("tdp", &PowerParams::tdp_w, Unit::watts, sim::positive(),
                                 "Thermal design power: what products under load are held to.")),
        sim::field("fp32_flop", &PowerParams::fp32_flop_j, Unit::joules, sim::at_least(0), "Energy of a vector FLOP."),
        sim::field("fp16_flop", &PowerParams::fp16_flop_j, Unit::joules, sim::at_least(0),
                   "Energy of a 16-bit tensor FLOP, on-chip movement included."),
        sim::field("fp8_flop", &PowerParams::fp8_flop_j, Unit::joules, sim::at_least(0),
                   "Energy of an 8-bit tensor operation."),
        sim::field("memory_byte", &PowerParams::memory_byte_j, Unit::joules, sim::at_least(0),
                   "Energy of a byte of device memory on its way to the cores."),
    };
  }
};

}  // namespace orrery::hw
