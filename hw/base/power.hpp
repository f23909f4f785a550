// Power and energy of a device, as every kind of part that draws them states them.
#pragma once

#include "sim/base/params.hpp"

namespace orrery::hw {

/// Power in W and dynamic energy in J per FLOP and per byte of device memory.
struct PowerParams {
  double idle_w = 0, active_w = 0, tdp_w = 0;
  double fp32_flop_j = 0, fp16_flop_j = 0, fp8_flop_j = 0, memory_byte_j = 0;
  static sim::FieldRows<PowerParams> fields();
};

}  // namespace orrery::hw
