#include "hw/base/power.hpp"

namespace orrery::hw {

sim::FieldRows<PowerParams> PowerParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("idle", &PowerParams::idle_w, Unit::watts, sim::at_least(0), "Power while idle.")),
      sim::field("active", &PowerParams::active_w, Unit::watts, sim::at_least(0),
                 "Power added while any kernel runs, whatever it does: clocks, schedulers and leakage of woken units."),
      sim::required(sim::field("tdp", &PowerParams::tdp_w, Unit::watts, sim::positive(),
                               "Thermal design power (TDP), to which the clock holds matrix products under load.")),
      sim::field("fp32_flop", &PowerParams::fp32_flop_j, Unit::joules, sim::at_least(0),
                 "Energy of one FLOP of the vector units."),
      sim::field("fp16_flop", &PowerParams::fp16_flop_j, Unit::joules, sim::at_least(0),
                 "Energy of one 16-bit FLOP of the tensor units, on-chip data movement included."),
      sim::field("fp8_flop", &PowerParams::fp8_flop_j, Unit::joules, sim::at_least(0),
                 "Energy of one 8-bit operation of the tensor units."),
      sim::field("memory_byte", &PowerParams::memory_byte_j, Unit::joules, sim::at_least(0),
                 "Energy to move one byte between device memory and the cores."),
  };
  return table;
}

}  // namespace orrery::hw
