#include "hw/base/power.hpp"

namespace orrery::hw {

sim::FieldRows<PowerParams> PowerParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
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
  return table;
}

}  // namespace orrery::hw
